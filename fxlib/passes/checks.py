"""Removal of assertions on ranks and dtypes that always hold: ``torch._assert(x.ndim == 4, …)``.

Preconditions: shapes are known from propagation; an assertion about something unknown stays. So does one on sizes,
which may fail for another input.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node, map_arg
from fxlib.passes.calls import metadata_read

__all__ = ["remove_checks"]

_OF_RANK_AND_DTYPE: dict[str, Callable[[Any], Any]] = {
    "ndim": lambda meta: len(meta.shape),
    "dim": lambda meta: len(meta.shape),
    "ndimension": lambda meta: len(meta.shape),
    "dtype": lambda meta: meta.dtype,
    "is_floating_point": lambda meta: meta.dtype.is_floating_point,
    "is_complex": lambda meta: meta.dtype.is_complex,
}
_PURE = frozenset(
    getattr(operator, name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "is_", "is_not", "contains", "add", "sub")
)


class _NotKnown(Exception):
    """A value that neither ranks nor dtypes determine."""


def remove_checks(graph_module: GraphModule) -> int:
    """Erase every assertion that ranks and dtypes prove, with nodes that only it reads; returns how many.

    Changes ``graph_module`` but does not recompile it.
    """
    check_traced(graph_module, "remove_checks()")
    erased = 0
    for node in list(graph_module.graph.nodes):
        if node.target is torch._assert and node.op == "call_function" and not node.users and _holds(node):
            _erase(node)
            erased += 1
    for node in reversed(list(graph_module.graph.nodes)):
        if not node.users and metadata_read(node) is not None:
            _erase(node)
    return erased


def _holds(check: Node) -> bool:
    condition = check.args[0] if check.args else check.kwargs.get("condition")
    if not isinstance(condition, Node):
        return condition is True
    try:
        return _value(condition) is True
    except _NotKnown:
        return False


def _value(node: Node) -> Any:
    name = metadata_read(node)
    if name is not None:
        source: Any = node.args[0]
        meta = source.meta.get("tensor_meta")
        if name not in _OF_RANK_AND_DTYPE or not hasattr(meta, "shape"):
            raise _NotKnown
        return _OF_RANK_AND_DTYPE[name](meta)
    if node.op != "call_function" or node.kwargs or node.target not in _PURE:
        raise _NotKnown
    try:
        function: Any = node.target
        return function(*map_arg(node.args, _value))
    except (TypeError, ValueError) as error:
        raise _NotKnown from error


def _erase(node: Node) -> None:
    """Erase a node, and then each of its inputs that is unused and has no side effect."""
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for each in inputs:
        if not each.users and (metadata_read(each) is not None or each.target in _PURE):
            _erase(each)
