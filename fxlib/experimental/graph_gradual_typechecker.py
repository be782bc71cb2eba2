"""Checking and inferring gradual tensor types (``fxlib.tensor_type``) over a graph.

`GraphTypeChecker` gives each node the type that follows from its inputs' and its annotation, or raises; `Refine` names
the unknown sizes and says which are equal. Both know the operators of convolutional networks; others are added with
``register_inference_rule`` and ``register_refinement_rule``. For real and symbolic shapes of any operator see
``fxlib.shapes``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Linear, MaxPool2d, ReLU

from ..graph_module import GraphModule
from ..node import Node, Target, map_arg
from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from ._tensor_type_rules import (
    adaptiveavgpool2d_check,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    flatten_check,
    get_greatest_upper_bound,
    linear_check,
    maxpool2d_check,
    reshape_type,
)
from .refinement_types import Equality
from .unification import Var

__all__ = [
    "GraphTypeChecker",
    "Refine",
    "adaptiveavgpool2d_check",
    "adaptiveavgpool2d_inference_rule",
    "add_inference_rule",
    "all_eq",
    "bn2d_inference_rule",
    "broadcast_types",
    "calculate_out_dimension",
    "conv2d_inference_rule",
    "conv_refinement_rule",
    "conv_rule",
    "element_wise_eq",
    "expand_to_tensor_dim",
    "first_two_eq",
    "flatten_check",
    "flatten_inference_rule",
    "flatten_refinement_rule",
    "get_attr_inference_rule",
    "get_greatest_upper_bound",
    "get_parameter",
    "linear_check",
    "linear_inference_rule",
    "linear_refinement_rule",
    "maxpool2d_check",
    "maxpool2d_inference_rule",
    "register_algebraic_expressions_inference_rule",
    "register_inference_rule",
    "register_refinement_rule",
    "relu_inference_rule",
    "reshape_inference_rule",
    "transpose_inference_rule",
]

# By function, or by class of module.
_INFERENCE_RULES: dict[Target, Callable[..., Any]] = {}
_REFINEMENT_RULES: dict[Target, Callable[..., Any]] = {}
_RULES: dict[Target, Callable[..., Any]] = {}


def _registrar(rules: dict[Target, Callable[..., Any]], call_target: Target) -> Callable[[Any], Any]:
    def register(rule: Any) -> Any:
        if call_target in rules:
            raise RuntimeError(f"Rule already registered for {call_target}!")
        rules[call_target] = rule
        return rule

    return register


def register_inference_rule(call_target: Target) -> Callable[[Any], Any]:
    """Decorates a function that checks a node and sets its type: ``rule(node)``, or ``rule(node, module)``.

    Raises:
        RuntimeError: the target has a rule.
    """
    return _registrar(_INFERENCE_RULES, call_target)


def register_refinement_rule(call_target: Target) -> Callable[[Any], Any]:
    """Decorates a function ``rule(node)`` that gives the equalities between a node's sizes and its inputs'."""
    return _registrar(_REFINEMENT_RULES, call_target)


def register_algebraic_expressions_inference_rule(call_target: Target) -> Callable[[Any], Any]:
    """Decorates a function that writes a node's sizes as expressions of its inputs', with `register_inference_rule`'s
    arguments.
    """
    return _registrar(_RULES, call_target)


# --- inference: the type of a node from the types of its inputs -------------------------------------------------------


def _input(n: Node) -> Node:
    source = n.args[0] if n.args else n.kwargs.get("input")
    if not isinstance(source, Node):
        raise AssertionError(f"Expected Node, got {type(source)}")
    return source


def _widened_input(n: Node) -> Any:
    """The type of the input; where it is unknown and the node's is annotated, with as many unknown dimensions."""
    source = _input(n)
    if source.type == Dyn and isinstance(n.type, TensorType):
        source.type = expand_to_tensor_dim(source.type, len(n.type.__args__))
    return source.type


@register_inference_rule(torch.add)
@register_inference_rule(operator.add)
def add_inference_rule(n: Node) -> Any:
    """The less precise of both types after broadcasting; a number leaves the other's.

    Raises:
        TypeError: the sizes do not fit.
    """
    t1, t2 = (arg.type if isinstance(arg, Node) else type(arg) for arg in n.args[:2])
    for number, other in ((t1, t2), (t2, t1)):
        if number in (int, float, bool) and isinstance(other, TensorType):
            n.type = other
            return n.type
    new1, new2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = new1 != t1 or new2 != t2
    if not is_consistent(new1, new2):
        first, second = (f"{arg} ({t})" for arg, t in zip(n.args, (t1, t2), strict=False))
        raise TypeError(f"Cannot add arguments {first} and {second} in node {n}. Types should match ")
    n.type = new2 if is_more_precise(new1, new2) else new1
    return n.type


@register_inference_rule(getattr)
def get_attr_inference_rule(n: Node, traced: Any) -> Any:
    """``Dyn`` for the shape of a value.

    Raises:
        TypeError: another attribute.
    """
    if n.args[1] != "shape":
        raise TypeError("Not yet implemented")
    n.type = Dyn
    return n.type


@register_inference_rule(torch.transpose)
def transpose_inference_rule(n: Node) -> Any:
    """The type with two dimensions exchanged.

    Raises:
        TypeError: there are no such dimensions.
    """
    t: Any = _input(n).type
    dims: list[Any] = [n.args[i] if len(n.args) > i else n.kwargs.get(f"dim{i - 1}") for i in (1, 2)]
    if t == Dyn:
        n.type = Dyn
        return n.type
    if not isinstance(t, TensorType) or not all(-len(t.__args__) <= dim < len(t.__args__) for dim in dims):
        raise TypeError(f"Cannot transpose {dims[0]} and {dims[1]} in type {t} for node {n}")
    sizes = list(t.__args__)
    sizes[dims[0]], sizes[dims[1]] = sizes[dims[1]], sizes[dims[0]]
    n.type = get_greatest_upper_bound(n.type, TensorType(sizes))
    return n.type


@register_inference_rule(torch.reshape)
def reshape_inference_rule(n: Node) -> TensorType:
    """The sizes asked for, where they and those of the input can divide each other.

    Raises:
        TypeError: they cannot.
    """
    wanted: Any = n.args[1] if len(n.args) > 1 else n.kwargs["shape"]
    n.type = reshape_type(_input(n).type, [Dyn if isinstance(size, Node) else size for size in wanted], n)
    return n.type


def _expand_both(n: Node, rank: int) -> tuple[Any, Any]:
    """The input's type, which is written back, and the node's own, with ``rank`` dimensions."""
    source = _input(n)
    source.type = expand_to_tensor_dim(source.type, rank)
    return source.type, expand_to_tensor_dim(n.type, rank)


def _cannot_apply(n: Node, module_instance: Any) -> TypeError:
    return TypeError(
        f"Cannot apply {module_instance} with input type {_input(n).type} and existing type {n.type} on {n}"
    )


@register_inference_rule(BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The same sizes as the input's, with ``num_features`` channels where they are known.

    Raises:
        TypeError: they do not fit.
    """
    given, existing = _expand_both(n, 4)
    features = module_instance.num_features
    fits = is_consistent(given, existing)
    if not fits or not all(is_consistent(features, t.__args__[1]) for t in (given, existing)):
        raise _cannot_apply(n, module_instance)
    n.type = get_greatest_upper_bound(given, existing)
    return n.type


@register_inference_rule(Conv2d)
def conv2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that the convolution gives, and what the annotation knows.

    Raises:
        TypeError: they do not fit.
    """
    given, existing = _expand_both(n, 4)
    batch, channels, *image = given.__args__
    if not is_consistent(module_instance.in_channels, channels):
        raise _cannot_apply(n, module_instance)
    image = [calculate_out_dimension(size, module_instance, index) for index, size in enumerate(image)]
    n.type = get_greatest_upper_bound(TensorType((batch, module_instance.out_channels, *image)), existing)
    return n.type


@register_inference_rule(ReLU)
def relu_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of the input, and what the annotation knows."""
    given = _widened_input(n)
    if isinstance(given, TensorType):
        n.type = get_greatest_upper_bound(given, n.type)
    return n.type


def _rule_of(check: Callable[..., TensorType], n: Node, *settings: Any) -> Any:
    given = _widened_input(n)
    if isinstance(given, TensorType):
        n.type = get_greatest_upper_bound(n.type, check(given, *settings))
    return n.type


@register_inference_rule(MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that the pooling gives, and what the annotation knows."""
    return _rule_of(maxpool2d_check, n, module_instance)


@register_inference_rule(Linear)
def linear_inference_rule(n: Node, module_instance: Any) -> Any:
    """The last size is ``out_features``; and what the annotation knows."""
    return _rule_of(linear_check, n, module_instance)


@register_inference_rule(AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The last two sizes are ``output_size``; and what the annotation knows."""
    return _rule_of(adaptiveavgpool2d_check, n, module_instance)


def _flattened(n: Node) -> tuple[Any, Any]:
    """The first and last dimension that a ``torch.flatten`` joins."""
    args = dict(zip(("start_dim", "end_dim"), n.args[1:], strict=False))
    given = {"start_dim": 0, "end_dim": -1, **args, **n.kwargs}
    return given["start_dim"], given["end_dim"]


@register_inference_rule(torch.flatten)
def flatten_inference_rule(n: Node) -> Any:
    """The sizes with some dimensions joined, and what the annotation knows."""
    source = _input(n)
    if source.type == Dyn and isinstance(n.type, TensorType):
        return n.type  # the annotation does not say how many dimensions were joined
    return _rule_of(flatten_check, n, *_flattened(n))


class GraphTypeChecker:
    """Checks the types of a graph.

    Example::

        class M(torch.nn.Module):
            def forward(self, x: TensorType((Dyn, 3, 32, 32))):
                return self.conv(x)

        gm = fxlib.symbolic_trace(M())
        GraphTypeChecker({}, gm).type_check()  # node.type of the output: TensorType[(Dyn, 6, 28, 28)]

    Args:
        env: names for rules; none of this module's uses it.
        traced: the module; its nodes' ``type`` is set.
    """

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env = env
        self.traced = traced

    def type_check(self) -> bool:
        """Sets the type of each node, ``Dyn`` where nothing is known.

        Returns:
            true.

        Raises:
            TypeError: types that do not fit.
            RuntimeError: an operator has no rule.
            NotImplementedError: a method is called.
        """
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Sets the type of one node, whose inputs have theirs, and returns it."""
        if n.type is None and n.op != "output":
            n.type = Dyn
        if n.op == "placeholder":
            return n.type
        if n.op == "get_attr":
            value = get_parameter(self.traced, str(n.target))
            n.type = TensorType(value.shape)
            return n.type
        if n.op == "call_function":
            rule = _INFERENCE_RULES.get(n.target)
            if rule is None:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            return rule(n, self.traced) if n.target is getattr else rule(n)
        if n.op == "call_module":
            module = self.traced.get_submodule(str(n.target))
            rule = _INFERENCE_RULES.get(type(module))
            if rule is None:
                raise RuntimeError(f"No inference rule registered for class {type(module)}!")
            return rule(n, module)
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda used: used.type)
            return n.type
        raise NotImplementedError(f"Method {n.op} not yet implemented")


# --- refinement: which sizes are equal --------------------------------------------------------------------------------


def _sizes(*nodes: Any) -> list[Any] | None:
    """The sizes of each node; ``None`` unless all are known to be tensors."""
    if not all(isinstance(node, Node) and isinstance(node.type, TensorType) for node in nodes):
        return None
    return [list(node.type.__args__) for node in nodes]


def _equal(pairs: Any) -> list[Equality]:
    return [Equality(a, b) for a, b in pairs]


def _first_equal(n: Node, count: int | None) -> list[Equality]:
    sizes = _sizes(_input(n), n)
    return _equal(zip(*(of[:count] for of in sizes), strict=False)) if sizes else []


@register_refinement_rule(Conv2d)
def conv_refinement_rule(n: Node) -> list[Any]:
    """The first sizes of input and output are equal."""
    return _first_equal(n, 1)


@register_refinement_rule(Linear)
def linear_refinement_rule(n: Node) -> list[Any]:
    """The first sizes of input and output are equal."""
    return _first_equal(n, 1)


@register_refinement_rule(BatchNorm2d)
@register_refinement_rule(ReLU)
def all_eq(n: Node) -> list[Any]:
    """All sizes of input and output are equal."""
    return _first_equal(n, None)


@register_refinement_rule(AdaptiveAvgPool2d)
@register_refinement_rule(MaxPool2d)
def first_two_eq(n: Node) -> list[Any]:
    """The first two sizes of input and output are equal."""
    return _first_equal(n, 2)


@register_refinement_rule(torch.add)
@register_refinement_rule(operator.add)
def element_wise_eq(n: Node) -> list[Any]:
    """A size is equal to the output's where both inputs' are the same after broadcasting.

    Where they are not yet known to be the same, another round may know it.
    """
    sizes = _sizes(*n.args[:2], n)
    if sizes is None:
        return []
    left, right = broadcast_types(*(TensorType(of) for of in sizes[:2]))
    return [
        Equality(a, result) for a, b, result in zip(left.__args__, right.__args__, sizes[2], strict=False) if a == b
    ]


@register_refinement_rule(torch.flatten)
def flatten_refinement_rule(n: Node) -> list[Any]:
    """The sizes of dimensions that are not joined are equal."""
    sizes = _sizes(_input(n), n)
    if sizes is None:
        return []
    given, result = sizes
    start, end = (dim + len(given) if dim < 0 else dim for dim in _flattened(n))
    after = len(given) - 1 - end
    pairs = list(zip(result[:start], given[:start], strict=False))
    return _equal(pairs + (list(zip(result[-after:], given[-after:], strict=False)) if after else []))


@register_algebraic_expressions_inference_rule(Conv2d)
def conv_rule(n: Node, module_instance: Any) -> TensorType | None:
    """The last two sizes as expressions of the input's."""
    sizes = _sizes(_input(n), n)
    if sizes is None:
        return None
    given, result = sizes
    image = [calculate_out_dimension(size, module_instance, index) for index, size in enumerate(given[2:])]
    n.type = TensorType((*result[:2], *image))
    return n.type


class Refine:
    """Names what is unknown in the types of a checked graph, and collects which names are equal.

    ``constraints`` holds the equalities after `refine`; ``unify_refinements`` solves them.
    """

    def __init__(self, traced: Any) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count(start=0, step=1)

    def refine(self) -> bool:
        """Puts a variable for each ``Dyn`` and collects the equalities of each node."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def symbolic_relations(self) -> bool:
        """Turns variables into sympy's symbols, and writes sizes as expressions of others where a rule knows how."""
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """``typ`` with a new variable for each ``Dyn``."""
        if typ == Dyn:
            return Var(next(self.symbol_iter))
        return _in_type(self.replace_dyn_with_fresh_var, typ)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """``typ`` with sympy's symbol of the same name for each variable."""
        if isinstance(typ, Var):
            return sympy.symbols(str(typ))
        return _in_type(self.convert_to_sympy_symbols, typ)

    def refine_node(self, n: Node) -> Any:
        """Names what is unknown in one node's type; returns its equalities, which are collected too."""
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda used: used.type)
            return n.type
        n.type = self.replace_dyn_with_fresh_var(n.type)
        rule = _REFINEMENT_RULES.get(self._called(n))
        found = rule(n) if rule is not None else []
        self.constraints += found or []
        return found

    def infer_symbolic_relations(self, n: Node) -> Any:
        """Writes one node's sizes as expressions of its inputs'."""
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda used: used.type)
            return n.type
        n.type = self.convert_to_sympy_symbols(n.type)
        called = self._called(n)
        rule = _RULES.get(called)
        if rule is None:
            return n.type
        return rule(n, self.traced.get_submodule(n.target)) if n.op == "call_module" else rule(n)

    def _called(self, n: Node) -> Any:
        if n.op == "call_module":
            return type(self.traced.get_submodule(str(n.target)))
        return n.target if n.op == "call_function" else None


def _in_type(function: Callable[[Any], Any], typ: Any) -> Any:
    """``typ`` with ``function`` applied to what it is made of."""
    if isinstance(typ, TensorType):
        return TensorType(tuple(function(size) for size in typ.__args__))
    if type(typ) in (list, tuple):
        return type(typ)(function(item) for item in typ)
    return typ


def get_parameter(traced: Any, target: str) -> torch.Tensor:
    """The parameter or buffer of a module at a dotted path.

    Raises:
        AttributeError: there is none.
    """
    path, _, name = target.rpartition(".")
    owner = traced.get_submodule(path)
    if not hasattr(owner, name):
        raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
    value = getattr(owner, name)
    if not isinstance(value, torch.Tensor):
        raise AttributeError(f"`{name}` is not an nn.Parameter")
    return value
