"""Partitions of a graph made of the nodes that a backend supports, as few and as large as possible without cycles."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.format import _get_qualified_name
from fxlib.ir.node import Node
from fxlib.passes.operator_support import OperatorSupportBase
from fxlib.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

logger = logging.getLogger(__name__)

_NON_COMPUTE_OPS = frozenset({"torch.ops.aten.view", "_operator.getitem"})


class Partition:
    """Nodes that go together: ``nodes`` maps each to its position, counted from the graph's end."""

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = {}
        if nodes is not None:
            self.nodes = dict.fromkeys(nodes) if node_orders is None else dict(zip(nodes, node_orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Adds a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Removes a node."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of nodes."""
        return len(self.nodes)


class _Reachability:
    """Which nodes depend on which, as bits of integers: bit ``i`` stands for the ``i``-th node."""

    def __init__(self, nodes: list[Node]) -> None:
        self.bit = {node: 1 << index for index, node in enumerate(nodes)}
        self.below: dict[Node, int] = {}
        for node in reversed(nodes):
            mask = 0
            for user in node.users:
                mask |= self.bit[user] | self.below[user]
            self.below[node] = mask


class _DependencyViewer:
    """Answers which nodes depend on a node, directly or not."""

    def __init__(self, graph_module: GraphModule) -> None:
        self._nodes = list(graph_module.graph.nodes)
        self._reach = _Reachability(self._nodes)

    def downstreams_of(self, node: Node) -> set[Node]:
        mask = self._reach.below[node]
        return {other for other in self._nodes if mask & self._reach.bit[other]}


class _Growing:
    """A partition while it grows: its members and all that depends on one of them, as bits, and its users."""

    def __init__(self, number: int, node: Node, order: int, reach: _Reachability) -> None:
        self.number = number
        self.rank = number
        self.nodes: dict[Node, int] = {node: order}
        self.users = set(node.users)
        self.members = reach.bit[node]
        self.below = reach.below[node]

    def absorb(self, other: _Growing) -> None:
        self.nodes.update(other.nodes)
        self.users |= other.users
        self.members |= other.members
        self.below |= other.below
        self.users.difference_update(self.nodes)
        self.rank = min(self.rank, other.rank)


@dataclass(eq=False, repr=False)
class CapabilityBasedPartitioner:
    """Proposes partitions of supported nodes and fuses them.

    Args:
        graph_module: the module to partition.
        operator_support: which nodes are supported.
        allows_single_node_partition: keep partitions with a single computing node.
        non_compute_ops: qualified names of functions that are not worth a partition by themselves.
        allowed_single_node_partition_ops: those that are, even alone.
        skip_horizontal_fusion: do not merge partitions on account of an unsupported node.
    """

    graph_module: GraphModule
    operator_support: OperatorSupportBase
    allows_single_node_partition: bool = False
    non_compute_ops: Sequence[str] | None = None
    allowed_single_node_partition_ops: Sequence[str] | None = None
    skip_horizontal_fusion: bool = False

    def __post_init__(self) -> None:
        self.dependency_viewer = _DependencyViewer(self.graph_module)
        self.graph_module = adopted(self.graph_module)
        self.non_compute_ops = self.non_compute_ops or []
        self.allowed_single_node_partition_ops = self.allowed_single_node_partition_ops or []

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The partitions, those of the graph's end first.

        From the last node to the first, a supported node opens a partition, and partitions are merged, in the order of
        their opening, wherever that closes no cycle with what lies between or with other partitions.
        """
        nodes = list(self.graph_module.graph.nodes)
        reach = _Reachability(nodes)
        submodules = dict(self.graph_module.named_modules())
        growing: dict[int, _Growing] = {}
        numbers = itertools.count()

        for order, node in enumerate(reversed(nodes)):
            candidates: dict[int, None] = {}
            if self.operator_support.is_node_supported(submodules, node):
                number = next(numbers)
                growing[number] = _Growing(number, node, order, reach)
                candidates[number] = None
            elif self.skip_horizontal_fusion:
                continue
            if self.skip_horizontal_fusion:
                near = [key for user in node.users for key in growing if user in growing[key].nodes]
            else:
                near = sorted(growing, key=lambda key: growing[key].rank)
            candidates.update(dict.fromkeys(near))
            keys = list(candidates)
            for other in keys[1:]:
                if self._can_merge(growing[keys[0]], growing[other], growing, reach):
                    # The larger one absorbs the other.
                    kept, gone = sorted((keys[0], other), key=lambda key: -len(growing[key].nodes))
                    growing[kept].absorb(growing.pop(gone))
                    keys[0] = kept

        partitions = {}
        owner: dict[Node, int] = {}
        for number, grown in growing.items():
            ordered = sorted(grown.nodes.items(), key=lambda item: item[1], reverse=True)
            partitions[number] = Partition(number, [node for node, _ in ordered], [position for _, position in ordered])
            owner.update(dict.fromkeys(grown.nodes, number))
        self._keep_items_with_their_tuple(nodes, partitions, owner)
        if not self.allows_single_node_partition:
            partitions = {
                number: partition for number, partition in partitions.items() if self._is_worthwhile(partition)
            }
        logger.debug("Partitions proposed: %s", partitions)
        return [partition for partition in partitions.values() if partition.size() > 0]

    def _can_merge(self, one: _Growing, two: _Growing, growing: dict[int, _Growing], reach: _Reachability) -> bool:
        members = one.members | two.members
        reached = 0
        for user in one.users | two.users:
            if not reach.bit[user] & members:
                reached |= reach.bit[user] | reach.below[user]
        # A partition runs as one: whoever reaches a member of it reaches all that depends on any other member.
        rest = [grown for grown in growing.values() if grown is not one and grown is not two]
        while not reached & members:
            entered = [grown for grown in rest if grown.members & reached]
            if not entered:
                return True
            rest = [grown for grown in rest if not grown.members & reached]
            for grown in entered:
                reached |= grown.members | grown.below
        return False

    def _keep_items_with_their_tuple(
        self, nodes: list[Node], partitions: dict[int, Partition], owner: dict[Node, int]
    ) -> None:
        """Moves ``getitem`` nodes to where the tuple is made, since partitions can only pass tensors."""
        moves: dict[Node, int | None] = {}
        for node in nodes:
            if all(_qualified_name_if_function(user) == "_operator.getitem" for user in node.users):
                home = owner.get(node)
                for user in node.users:
                    if owner.get(user) != home:
                        moves[user] = home
        for node, home in moves.items():
            if node in owner:
                partitions[owner.pop(node)].remove_node(node)
            if home is not None:
                owner[node] = home
                partitions[home].add_node(node)

    def _is_worthwhile(self, partition: Partition) -> bool:
        passive = _NON_COMPUTE_OPS.union(self.non_compute_ops or ())
        alone = self.allowed_single_node_partition_ops or ()
        count = 0
        for node in partition.nodes:
            if node.op == "call_function":
                name = _get_qualified_name(node.target)  # type: ignore[arg-type]
                count += (name not in passive) + (name in alone)
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Replaces each partition by a call of a submodule, in place."""
        return fuse_by_partitions(self.graph_module, [partition.nodes for partition in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes non-computing nodes off the beginnings and ends of the partitions, in place."""
        passive = set(self.non_compute_ops or ())

        def is_passive(node: Node) -> bool:
            return _qualified_name_if_function(node) in passive

        for partition in partitions:
            removed: set[Node] = set()
            for node in partition.nodes:
                if is_passive(node) and all(
                    used.op == "placeholder" or used not in partition.nodes or used in removed
                    for used in node.all_input_nodes
                ):
                    removed.add(node)
            for node in sorted(partition.nodes, reverse=True):
                if is_passive(node) and all(
                    user.op == "output" or user not in partition.nodes or user in removed for user in node.users
                ):
                    removed.add(node)
            for node in removed:
                partition.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Proposes partitions and fuses them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _qualified_name_if_function(node: Node) -> str | None:
    return _get_qualified_name(node.target) if node.op == "call_function" else None  # type: ignore[arg-type]
