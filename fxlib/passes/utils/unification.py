"""Whether a node of a graph, with its dependencies, matches a node of a pattern.

Pairs of a pattern's value and a graph's value wait on an agenda. A pair of nodes is bound, and the pairs of their
arguments are put on the agenda; the first pair that does not fit ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fxlib.ir import node as _nodes
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

__all__ = ["Unifier", "is_node"]


def is_node(value: object) -> bool:
    """Whether a value is a node, of fxlib or, in a graph that other tools made, of torch.fx."""
    return type(value) is Node or isinstance(value, _nodes._node_types)


class Unifier:
    """Binds nodes of a pattern to matching nodes or values.

    Args:
        free: the nodes of the pattern that match anything.
        equal: compares two nodes without their arguments.
        calls: the nodes of the pattern for which ``equal`` compares operation and target, and nothing else.
        ignore_literals: constants may differ.
    """

    def __init__(
        self,
        free: frozenset[Node],
        calls: frozenset[Node],
        equal: Callable[[Node, Node], bool],
        ignore_literals: bool,
    ) -> None:
        self._free = free
        self._calls = calls
        self._equal = equal
        self._ignore_literals = ignore_literals

    def candidates(self, pn: Node, graph: Graph) -> list[Node]:
        """The nodes of a graph that are equal to ``pn``."""
        if pn not in self._calls:
            return [node for node in graph.nodes if self._equal(pn, node)]
        op, target = pn.op, pn.target
        return [node for node in graph.nodes if node.op == op and node.target == target]

    def unify(self, pn: Node, gn: Node, bound: dict[Node, Any]) -> bool:
        """Bind ``pn`` to ``gn``, and their dependencies likewise; if it fails, ``bound`` is invalid."""
        agenda: list[tuple[Any, Any]] = [(pn, gn)]
        taken = set(filter(is_node, bound.values())) if bound else set()
        free, calls = self._free, self._calls
        while agenda:
            expected, found = agenda.pop()
            if not (type(expected) is type(found) is Node or (is_node(expected) and is_node(found))):
                inner = self._fitting_values(expected, found, bound)
                if inner is None:
                    return False
            elif expected in bound:
                if bound[expected] is not found:
                    return False
                continue
            elif found in taken:
                return False
            else:
                bound[expected] = found
                taken.add(found)
                if expected in free:
                    continue
                if expected in calls:
                    if expected.target != found.target or expected.op != found.op:
                        return False
                elif not self._equal(expected, found):
                    return False
                if expected.op == "placeholder":
                    continue
                inner = _arguments(expected, found)
                if inner is None:
                    return False
            agenda += zip(reversed(inner[0]), reversed(inner[1]), strict=True)
        return True

    def _fitting_values(
        self, expected: Any, found: Any, bound: dict[Node, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]] | None:
        """The items of two collections, none for equal constants; None if the values do not fit."""
        if isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
            return (expected, found) if len(expected) == len(found) else None
        if not is_node(expected):
            fits = type(expected) is type(found) and bool(expected == found)
        elif expected.op == "placeholder":
            fits = bool(bound.setdefault(expected, found) == found)
        else:
            fits = False
        return ((), ()) if fits or self._ignore_literals else None


def _arguments(pn: Node, gn: Node) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """The arguments of two calls, in the same order; None if their forms cannot be compared."""
    if len(pn.args) == len(gn.args):
        if not pn.kwargs and not gn.kwargs:
            return pn.args, gn.args
        if list(pn.kwargs) == list(gn.kwargs):
            return [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
    if pn.op == "call_function" and isinstance(pn.target, torch._ops.OpOverload):
        return _by_parameter(pn, pn.target._schema), _by_parameter(gn, pn.target._schema)
    return None


def _by_parameter(node: Node, schema: torch.FunctionSchema) -> list[Any]:
    """The arguments of a call of an operator in the order of its parameters, defaults included."""
    values = {parameter.name: parameter.default_value for parameter in schema.arguments}
    values.update(zip([p.name for p in schema.arguments if not p.kwarg_only], node.args, strict=False))
    values.update((name, value) for name, value in node.kwargs.items() if name in values)
    return list(values.values())
