"""Removal of operators that return their input unchanged: ``x * 1``, ``x.view(x.shape)``, ``x.float()``.

Preconditions: shapes are known, from example inputs or from propagation before; otherwise an operator stays. The result
is a graph for these shapes and dtypes.
"""

from __future__ import annotations

from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import library_name
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.edits import yield_to
from fxlib.shapes import propagate

__all__ = ["remove_no_ops"]

# Their result has the elements of their input in the same order, whatever the arguments.
_SAME_ELEMENTS = frozenset({"view", "reshape", "flatten", "squeeze", "expand", "contiguous"})
_CONVERSIONS = frozenset({"float", "double", "half", "bfloat16", "int", "long", "bool"})
# Without addition of 0, which turns -0.0 into 0.0.
_NEUTRAL = {"mul": 1, "truediv": 1, "div": 1, "sub": 0, "pow": 1}


def remove_no_ops(graph_module: GraphModule, *inputs: Any) -> GraphModule:
    """Erase every operator that does not change its input; changes and returns ``graph_module``.

    Args:
        inputs: example inputs, whose shapes are propagated first.

    An operator that makes a copy stays where the copy or its source is written to, and where the copy of an input is
    returned. ``meta["remove_no_ops"]`` counts what was erased.
    """
    check_traced(graph_module, "remove_no_ops()")
    if inputs:
        propagate(graph_module, *inputs)
    written = Aliases(graph_module).changed()
    erased = 0
    for node in list(graph_module.graph.nodes):
        if (source := _given_back(node)) is None or not _alike(node, source):
            continue
        needed = _copies(node) and (not written.isdisjoint((node, source)) or _leads_out(node, source))
        if not needed:
            yield_to(node, source)
            erased += 1
    return eliminate_dead_code(graph_module, remove_no_ops=erased)


def _given_back(node: Node) -> Node | None:
    """The input that a call returns, if its result has the same shape, dtype and strides."""
    if node.op not in ("call_function", "call_method"):
        return None
    name, args = library_name(node.target), node.args
    source = args[0] if args and isinstance(args[0], Node) else None
    if name in _NEUTRAL and len(args) == 2 and not node.kwargs:
        if name == "mul" and isinstance(args[1], Node) and _is(args[0], 1):
            return args[1]
        return source if _is(args[1], _NEUTRAL[name]) else None
    if name in _SAME_ELEMENTS or name in _CONVERSIONS:
        return source
    if name == "to" and not node.kwargs and all(isinstance(each, torch.dtype) for each in args[1:]):
        return source
    if name == "transpose" and source is not None and library_name(source.target) == "transpose" and not source.kwargs:
        original = source.args[0]
        undone = not node.kwargs and set(args[1:]) == set(source.args[1:])
        return original if undone and isinstance(original, Node) else None
    return None


def _is(value: object, number: int) -> bool:
    return type(value) in (int, float) and value == number


def _alike(node: Node, source: Node) -> bool:
    one, other = node.meta.get("tensor_meta"), source.meta.get("tensor_meta")
    same = ("shape", "dtype", "stride")
    return hasattr(one, "stride") and all(getattr(one, each) == getattr(other, each, None) for each in same)


def _copies(node: Node) -> bool:
    return library_name(node.target) in _NEUTRAL


def _leads_out(node: Node, source: Node) -> bool:
    """Whether the model would then return one of its inputs or parameters itself."""
    return source.op in ("placeholder", "get_attr") and any(user.op == "output" for user in node.users)
