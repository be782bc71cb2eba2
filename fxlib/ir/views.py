"""Views of a graph: its list of nodes, the place of new ones, the index by target."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from fxlib.ir.arguments import Target
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []


class _node_list:
    """The nodes of a graph as they are at each step: safe against edits while iterating."""

    __slots__ = ("direction", "graph")

    def __init__(self, graph: "Graph", direction: Literal["_prev", "_next"] = "_next") -> None:
        assert direction in ("_next", "_prev"), f"direction must be '_next' or '_prev', got {direction}"
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        if self.direction == "_next":
            node = root._next
            while node is not root:
                if not node._erased:
                    yield node
                node = node._next
        else:
            node = root._prev
            while node is not root:
                if not node._erased:
                    yield node
                node = node._prev

    def __reversed__(self) -> "_node_list":
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


def last_users(nodes: Iterable[Node]) -> dict[Node, Node]:
    """For each node that is used by one of ``nodes``, which are in order, the last one that uses it."""
    return {used: user for user in nodes for used in user._input_nodes}


class _InsertPoint:
    """Where new nodes go. A ``with`` statement restores the old place at its end; otherwise the new one stays."""

    def __init__(self, graph: "Graph", new_insert: Callable[..., None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert


class _FindNodesLookupTable:
    """The nodes of a graph by op and target. Created on first use, then updated by every edit."""

    def __init__(self) -> None:
        self.table: dict[str, dict[Target, dict[Node, None]]] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(node._op, {}).get(node._target, ())

    def insert(self, node: Node) -> None:
        self.table.setdefault(node._op, {}).setdefault(node._target, {})[node] = None

    def remove(self, node: Node) -> None:
        by_target = self.table[node._op]
        nodes = by_target[node._target]
        del nodes[node]
        if not nodes:
            del by_target[node._target]

    def find_nodes(self, *, op: str, target: "Target | None" = None) -> list[Node]:
        if op == "call_function":
            assert target is not None, "target must not be None for call_function op"
        by_target = self.table.get(op, {})
        if target is None:
            return [node for nodes in by_target.values() for node in nodes]
        return list(by_target.get(target, ()))
