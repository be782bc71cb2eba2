"""Paths through a pattern from matched nodes to the next node to search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from fxlib.ir.node import Node
from fxlib.passes.utils.unification import is_node

__all__ = ["along", "route"]


def route(anchor: Node, earlier: Iterable[Node]) -> list[Node] | None:
    """A path of pattern nodes, along users, from a node matched with the earlier anchors to ``anchor``.

    It starts at an input only if necessary, since inputs such as weights may have users all over a graph.
    """
    matched: set[Node] = set()
    pending = list(earlier)
    while pending:
        node = pending.pop()
        if node not in matched:
            matched.add(node)
            pending += node.all_input_nodes
    best: list[Node] | None = None
    paths = deque([[anchor]])
    seen = {anchor}
    while paths:
        path = paths.popleft()
        start = path[0]
        if start in matched:
            if start.op != "placeholder":
                return path
            best = best or path
            continue
        for used in start.all_input_nodes:
            if used not in seen:
                seen.add(used)
                paths.append([used, *path])
    return best


def along(path: list[Node], bound: dict[Node, Any], candidates: set[Node]) -> list[Node]:
    """The candidates reachable along ``path`` from the node that its first node is bound to, in the graph's order."""
    start = bound.get(path[0])
    if not is_node(start):
        return []
    reached: dict[Node, None] = {start: None}  # type: ignore[dict-item]
    for step in path[1:]:
        reached = {
            user: None
            for node in reached
            for user in node.users
            if step is path[-1] or (user.op == step.op and user.target == step.target) or step.op == "get_attr"
        }
    return sorted(node for node in reached if node in candidates)
