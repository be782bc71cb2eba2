"""Growing partitions: dependencies between nodes, and partitions that can be merged without a cycle."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from fxlib.ir.node import Node

__all__ = ["Growth", "Reachability"]


class Reachability:
    """Dependencies between nodes, as bits of integers: bit ``i`` stands for the ``i``-th node."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.bit = {node: 1 << index for index, node in enumerate(nodes)}
        self.below: dict[Node, int] = {}
        for node in reversed(nodes):
            mask = 0
            for user in node.users:
                mask |= self.bit[user] | self.below[user]
            self.below[node] = mask

    def downstreams_of(self, node: Node) -> set[Node]:
        """The nodes that depend on a node, directly or not."""
        mask = self.below[node]
        return {other for other in self.nodes if mask & self.bit[other]}


class _Group:
    """A partition while it grows: its members, the nodes that depend on them (as bits), and its users."""

    def __init__(self, number: int, node: Node, order: int, reach: Reachability) -> None:
        self.rank = number
        self.nodes: dict[Node, int] = {node: order}
        self.users = set(node.users)
        self.members = reach.bit[node]
        self.below = reach.below[node]

    def absorb(self, other: _Group) -> None:
        self.rank = min(self.rank, other.rank)
        self.nodes |= other.nodes
        self.members |= other.members
        self.below |= other.below
        self.users = (self.users | other.users).difference(self.nodes)


class Growth:
    """All partitions of a graph while they grow, by number.

    Args:
        nodes: of the graph, in its order.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._reach = Reachability(nodes)
        self._groups: dict[int, _Group] = {}
        self._numbers = itertools.count()

    def open(self, node: Node, order: int) -> int:
        """Start a partition with one node; ``order`` is the node's position, counted from the graph's end."""
        number = next(self._numbers)
        self._groups[number] = _Group(number, node, order, self._reach)
        return number

    def in_order_of_opening(self) -> list[int]:
        """All partitions in order of opening; a merged one counts as its first part."""
        return sorted(self._groups, key=lambda number: self._groups[number].rank)

    def that_use(self, node: Node) -> list[int]:
        """The partitions with a user of ``node``, in the order of its users."""
        return [number for user in node.users for number, group in self._groups.items() if user in group.nodes]

    def join(self, numbers: Iterable[int]) -> None:
        """Merge each other partition into the first one, unless that creates a cycle."""
        groups = self._groups
        first: int | None = None
        for other in dict.fromkeys(numbers):
            if first is None:
                first = other
            elif self._joinable(groups[first], groups[other]):
                gone = other
                if len(groups[first].nodes) < len(groups[other].nodes):
                    first, gone = other, first
                groups[first].absorb(groups.pop(gone))

    def _joinable(self, one: _Group, two: _Group) -> bool:
        bit, below = self._reach.bit, self._reach.below
        members = one.members | two.members
        reached = 0
        for user in one.users | two.users:
            if not bit[user] & members:
                reached |= bit[user] | below[user]
        # A partition runs as one: a node that leads to one member leads to everything that depends on any member.
        rest = [group for group in self._groups.values() if group is not one and group is not two]
        while not reached & members:
            entered = [group for group in rest if group.members & reached]
            if not entered:
                return True
            rest = [group for group in rest if not group.members & reached]
            for group in entered:
                reached |= group.members | group.below
        return False

    def __iter__(self) -> Iterator[tuple[int, dict[Node, int]]]:
        """The partitions with their nodes in the order of the graph, each with its position."""
        for number, group in self._groups.items():
            yield number, dict(sorted(group.nodes.items(), key=lambda entry: -entry[1]))
