"""The ways to add one node to a graph. The functions are methods of ``Graph``; all call ``create_node``."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from fxlib.ir.arguments import Argument, Target
from fxlib.ir.collections import immutable_dict
from fxlib.ir.format import _is_magic, _snake_case
from fxlib.ir.node import Node, _new_node
from fxlib.ir.order import GAP
from fxlib.ir.paths import attribute_of_modules

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

_NO_KWARGS = immutable_dict()
_ABSENT = object()


def create_node(
    self: Graph,
    op: str,
    target: Target,
    args: tuple[Argument, ...] | None = None,
    kwargs: dict[str, Argument] | None = None,
    name: str | None = None,
    type_expr: object | None = None,
) -> Node:
    """Make a node and insert it at the current insert point, by default the end.

    Args:
        op: one of the six operations.
        target: what is called or read, see ``Node``.
        args, kwargs: its arguments.
        name: the preferred name; another is chosen if it is taken. By default derived from the target.
        type_expr: the type of the value, written as an annotation in generated code.

    Raises:
        AssertionError: ``op``, ``args`` or ``kwargs`` is not what it must be.
        ValueError: the target is not of the type that ``op`` needs.
    """
    if type(args) is not tuple:
        args = _checked("args", args, tuple)
    if type(kwargs) is not dict:
        kwargs = _NO_KWARGS if kwargs is None else _checked("kwargs", kwargs, dict)
    unique = self._graph_namespace.create_name(target_to_str(self, target) if name is None else name, None)
    return link(self, Node(self, unique, op, target, args, kwargs, type_expr))


def _checked(what: str, given: Any, kind: type) -> Any:
    if given is not None and not isinstance(given, kind):
        raise AssertionError(f"{what} must be a {kind.__name__}, got {type(given)}")
    return kind() if given is None else given


def record(
    self: Graph,
    op: str,
    target: Target,
    args: tuple[Argument, ...],
    kwargs: dict[str, Argument],
    inputs: dict[Node, None],
    name: str | None = None,
    type_expr: object | None = None,
) -> Node:
    """``create_node`` without checks, for tracers.

    Args:
        op, target, name, type_expr: as for ``create_node``.
        args, kwargs: consisting of immutable collections, tuples, slices, nodes and immediates only.
        inputs: every node among them, in the order of first use; the new node keeps this dict.
    """
    unique = self._graph_namespace.create_name(target_to_str(self, target) if name is None else name, None)
    return link(self, _new_node(self, unique, op, target, args, kwargs, inputs, type_expr))


def link(self: Graph, node: Node) -> Node:
    """Insert a new node at the insert point."""
    if self._owning_module is not None:
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(node)
    if self._insert is self._append:
        root = self._root
        last = root._prev
        last._next = root._prev = node
        node._prev = last
        node._next = root
        # Labelled now if that takes one addition; see ``order``.
        key = last._sort_key
        node._sort_key = None if key is None else key + GAP
    else:
        self._insert(node)
    if self._find_nodes_lookup_table is not None:
        self._find_nodes_lookup_table.insert(node)
    self._len += 1
    return node


def target_to_str(self: Graph, target: Target | None) -> str:
    """The base of a node's name, from the target it calls or reads."""
    word = target.__name__ if callable(target) else target
    assert isinstance(word, str), f"Expected target to be str, got {type(target)}"
    return _snake_case(word[2:-2] if word is target and _is_magic(word) else word)


def placeholder(
    self: Graph, name: str, type_expr: object | None = None, default_value: object = inspect.Signature.empty
) -> Node:
    """Insert an input of the function, named ``name`` (``*args`` and ``**kwargs`` included)."""
    return self.create_node("placeholder", name, _only_given(default_value), type_expr=type_expr)


def _only_given(value: Any) -> tuple[Argument, ...]:
    return () if value is inspect.Signature.empty else (value,)


def get_attr(self: Graph, qualified_name: str, type_expr: object | None = None) -> Node:
    """Insert a read of the attribute at a dotted path of the module. Warns if the module has none."""
    root = self.owning_module
    if root is not None and attribute_of_modules(root, qualified_name, _ABSENT) is _ABSENT:
        warnings.warn(_NOTHING_TO_READ, stacklevel=2)
    return self.create_node("get_attr", qualified_name, type_expr=type_expr)


_NOTHING_TO_READ = (
    "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
    "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
    "Parameter, or nn.Module.register_buffer to add the necessary buffer"
)


def call_module(
    self: Graph,
    module_name: str,
    args: tuple[Argument, ...] | None = None,
    kwargs: dict[str, Argument] | None = None,
    type_expr: object | None = None,
) -> Node:
    """Insert a call of the submodule at a dotted path.

    Raises:
        AttributeError: the graph's module has no such submodule.
    """
    _require_submodule(self, module_name)
    return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)


def _require_submodule(graph: Graph, path: str) -> None:
    if graph.owning_module is not None:
        graph.owning_module.get_submodule(path)


def call_method(
    self: Graph,
    method_name: str,
    args: tuple[Argument, ...] | None = None,
    kwargs: dict[str, Argument] | None = None,
    type_expr: object | None = None,
) -> Node:
    """Insert a call of the method ``method_name`` on ``args[0]`` with the other arguments."""
    return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)


def call_function(
    self: Graph,
    the_function: Callable[..., Any],
    args: tuple[Argument, ...] | None = None,
    kwargs: dict[str, Argument] | None = None,
    type_expr: object | None = None,
    name: str | None = None,
) -> Node:
    """Insert a call of a Python function, operator or class."""
    return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)


def output(self: Graph, result: Argument, type_expr: object | None = None) -> Node:
    """Insert the return of ``result``."""
    return self.create_node(op="output", target="output", args=(result,), type_expr=type_expr)


# --- symbolic sizes ---------------------------------------------------------------------------------------------------


def create_size_node(self: Graph, tensor_node: Node, dim: int) -> Node:
    """Insert a read of one size of a tensor; if ``meta`` has the tensor, the result's ``meta`` gets the size."""
    return _create_reading(self, torch.ops.aten.sym_size.int, "size", tensor_node, dim)


def create_stride_node(self: Graph, tensor_node: Node, dim: int) -> Node:
    """Insert a read of one stride of a tensor, like ``create_size_node``."""
    return _create_reading(self, torch.ops.aten.sym_stride.int, "stride", tensor_node, dim)


def create_storage_offset_node(self: Graph, tensor_node: Node) -> Node:
    """Insert a read of a tensor's storage offset, like ``create_size_node``."""
    return _create_reading(self, torch.ops.aten.sym_storage_offset.default, "storage_offset", tensor_node)


def _create_reading(graph: Graph, operator: Callable[..., Any], method: str, tensor_node: Node, *dim: int) -> Node:
    node = graph.call_function(operator, (tensor_node, *dim))
    tensor, key = tensor_in_meta(tensor_node)
    if tensor is not None:
        node.meta[key] = getattr(tensor, method)(*dim)
    return node


def tensor_in_meta(tensor_node: Node) -> tuple[Any, str]:
    """The node's value in ``meta`` (None if there is none), and the key it has or would have there."""
    keys = [key for key in ("val", "example_value") if key in tensor_node.meta]
    return (tensor_node.meta[keys[0]], keys[0]) if keys else (None, "val")


def materialize_symint(self: Graph, value: torch.SymInt | int) -> Node | int:
    """Insert the nodes that compute one symbolic size, see ``materialize_symints``."""
    [made] = self.materialize_symints([value])
    return made


def materialize_symints(self: Graph, values: Sequence[torch.SymInt | int]) -> list[Node | int]:
    """Insert the nodes that compute symbolic sizes from the nodes of this graph that define their symbols.

    Example::

        with graph.inserting_before(graph.output_node()):
            rows, columns = graph.materialize_symints(tensor_node.meta["val"].shape)
            graph.call_function(torch.zeros, ((rows, columns),))

    Unlike ``create_size_node``, which reads the tensor at run time, the values depend on the inputs alone. Equal
    subexpressions become one node, so pass related values in one call.

    Returns:
        A node for each symbolic value; numbers are returned unchanged.

    Raises:
        TypeError: a value that is not an integer. AssertionError: a symbol that no node of the graph defines.
    """
    from fxlib.ir.symbolic_sizes import materialize

    return materialize(self, values)


def resolve_unbacked_binding(
    self: Graph, producer: Node, keypath: tuple[object, ...], lower_symint: Callable[[torch.SymInt], Node | int]
) -> Node:
    from fxlib.ir.bindings import resolve_binding

    return resolve_binding(self, producer, keypath, lower_symint)
