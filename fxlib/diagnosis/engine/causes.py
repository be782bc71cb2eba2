"""Why a traced value is unknown: it comes from data, from a shape, or from an argument that is not a tensor."""

from __future__ import annotations

import inspect
import operator
import re
from typing import Any, NamedTuple

import torch

from fxlib.diagnosis.engine.holes import hole
from fxlib.diagnosis.engine.values import PLAIN, Unknown, Values, show
from fxlib.diagnosis.rules import RULES
from fxlib.ir.node import Node
from fxlib.shapes import TensorMeta

__all__ = ["Cause", "cause_of"]

_SHAPE_ATTRIBUTES = frozenset(
    {
        "shape",
        "ndim",
        "dtype",
        "device",
        "is_cuda",
        "requires_grad",
        "is_sparse",
        "is_quantized",
        "layout",
        "is_meta",
        "is_cpu",
        "is_mps",
        "nbytes",
        "itemsize",
        "is_nested",
        "is_leaf",
    }
)
_SHAPE_METHODS = frozenset(
    {
        "size",
        "dim",
        "ndimension",
        "numel",
        "nelement",
        "stride",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
        "element_size",
        "get_device",
        "type",
        "is_pinned",
        "is_signed",
        "storage_offset",
    }
)
_MAKES_TENSOR = re.compile(r"(new_)?(full|zeros|ones|empty|tensor|rand|randn|randint|randperm|arange|linspace|eye)")
"""Functions of torch, and methods, that make a tensor of numbers. What it holds is data, even if the numbers are
sizes."""
_PLAIN_TYPE = re.compile(r"bool|int|float|str|None|NoneType|Optional|Union|Literal|[Ll]ist|[Tt]uple")
"""What the annotation of an argument that is not a tensor consists of."""
_SHAPE_FUNCTIONS = frozenset({torch.is_complex, torch.is_floating_point, torch.numel})


class Cause(NamedTuple):
    """``kind`` is "data", "shape", "argument", "number" (a cut in place of a real number) or "plain" (a cut whose
    failure is unrelated to tracing); ``argument`` is the input that it comes from, if there is only one."""

    kind: str
    argument: str | None

    @property
    def made_up(self) -> bool:
        """Whether the value is traced only because it replaces one that is not traced."""
        return self.kind in ("number", "plain")

    def explain(self, value: Any) -> str:
        """Why tracing does not know the value, and what to do if that is clear; ``value`` is the answer on the example
        inputs, if there is one."""
        known = "" if type(value) in (Unknown, TensorMeta) else f"is {show(value)} on the example inputs"
        if self.kind == "argument":
            argument = f"`{self.argument}`" if self.argument else "the argument"
            way_out = f"fix {argument} with concrete_args, or make it an attribute"
            return f"It {known}; {way_out}" if known else way_out[0].upper() + way_out[1:]
        if self.kind == "shape":
            return f"It {known or 'depends on a shape or type only'}, but a traced value cannot decide a branch"
        return "The result depends on tensor values, so tracing cannot choose a branch"


def _kinds(last: Node, values: Values, arguments: set[str]) -> dict[Node, str]:
    """The kinds of a node and of those that it comes from. Without recursion: a chain may have thousands of nodes."""
    found: dict[Node, str] = {}
    pending = [last]
    while pending:
        node = pending[-1]
        begins = node.target is hole or node.op in ("placeholder", "get_attr", "call_module")
        sources = () if begins else node.all_input_nodes
        if waiting := [each for each in sources if each not in found]:
            pending += waiting
            continue
        pending.pop()
        if node not in found:
            found[node] = _kind(node, [found[each] for each in sources], values, arguments)
    return found


def _kind(node: Node, inner: list[str], values: Values, arguments: set[str]) -> str:
    """``inner`` are the kinds of its inputs."""
    if node.target is hole:
        # int(), len() and the like return a number in a normal run; a Proxy would not be asked there.
        plain = values.known.get(node) is PLAIN
        found = "plain" if plain else "number" if RULES[str(node.args[0])].number else "data"
    elif node.op == "placeholder":
        arguments.add(str(node.target))
        value = values.known.get(node)
        found = "argument" if value is not None and type(value) is not Unknown and not _holds_tensor(value) else "data"
        if value is None and node.target in values.inputs:
            found = "argument"
        if type(value) in (Unknown, type(None)) and _is_annotated_as_plain(node):
            found = "argument"
    elif node.op in ("get_attr", "call_module"):
        found = "data"
    elif _asks_shape(node):
        found = "argument" if inner and all(kind == "argument" for kind in inner) else "shape"
    else:
        found = next((kind for kind in ("data", "shape", "argument", "number", "plain") if kind in inner), "data")
        value = values.known.get(node)
        if found == "shape" and _makes_tensor(node):
            found = "data"
        elif found == "data" and value is not None and type(value) is not Unknown and not _holds_tensor(value):
            found = "shape"
        elif found == "data" and _compares_text(node):
            found = "argument"
        elif found == "argument" and _holds_tensor(value):
            # An attribute of an object passed as an argument.
            found = "data"
    return found


def _is_annotated_as_plain(node: Node) -> bool:
    """Whether the annotation of an argument says that it is a number, a string or the like."""
    if node.type is None:
        return False
    text = node.type if isinstance(node.type, str) else inspect.formatannotation(node.type)
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"(['\"]).*?\1|\btyping\.", "", text))
    return all(map(_PLAIN_TYPE.fullmatch, names))


def _makes_tensor(node: Node) -> bool:
    if node.op == "call_method":
        return str(node.target).startswith("new_") and _MAKES_TENSOR.fullmatch(str(node.target)) is not None
    target: Any = node.target
    if node.op != "call_function" or getattr(target, "__module__", "") not in (None, "torch"):
        return False
    return _MAKES_TENSOR.fullmatch(getattr(target, "__name__", "")) is not None


def _compares_text(node: Node) -> bool:
    """Whether an argument is compared with a string, as in ``mode == "train"``, and so is one itself."""
    texts = any(isinstance(each, str) for each in node.args)
    return (
        node.target in (operator.eq, operator.ne) and texts and all(n.op == "placeholder" for n in node.all_input_nodes)
    )


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, TensorMeta):
        return True
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_tensor(item) for item in value.values())
    return False


def _asks_shape(node: Node) -> bool:
    if node.op == "call_function" and node.target is getattr and len(node.args) > 1:
        return node.args[1] in _SHAPE_ATTRIBUTES
    if node.op == "call_function":
        return node.target in _SHAPE_FUNCTIONS
    return node.op == "call_method" and node.target in _SHAPE_METHODS


def cause_of(node: Node, values: Values) -> Cause:
    """The cause of the value of ``node``: data wins over shape, shape over arguments."""
    arguments: set[str] = set()
    kind = _kinds(node, values, arguments)[node]
    return Cause(kind, next(iter(arguments)) if len(arguments) == 1 else None)
