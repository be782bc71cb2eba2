"""Partitions of the nodes that a backend supports, as few and as large as possible without cycles."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted
from fxlib.ir.format import _get_qualified_name
from fxlib.ir.node import Node
from fxlib.passes.infra.growth import Growth, Reachability
from fxlib.passes.operator_support import OperatorSupportBase
from fxlib.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

logger = logging.getLogger(__name__)

_NON_COMPUTE_OPS = frozenset({"torch.ops.aten.view", "_operator.getitem"})


class Partition:
    """The nodes of one partition: ``nodes`` maps each to its position, counted from the graph's end."""

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


@dataclass(eq=False, repr=False)
class CapabilityBasedPartitioner:
    """Proposes partitions of supported nodes and fuses them.

    Args:
        graph_module: the module to partition.
        operator_support: which nodes are supported.
        allows_single_node_partition: keep partitions with a single computing node.
        non_compute_ops: qualified names of functions that are not worth a partition by themselves.
        allowed_single_node_partition_ops: those that are worth a partition even alone.
        skip_horizontal_fusion: do not merge partitions on account of an unsupported node.
    """

    graph_module: GraphModule
    operator_support: OperatorSupportBase
    allows_single_node_partition: bool = False
    non_compute_ops: Sequence[str] | None = None
    allowed_single_node_partition_ops: Sequence[str] | None = None
    skip_horizontal_fusion: bool = False

    def __post_init__(self) -> None:
        self.dependency_viewer = Reachability(list(self.graph_module.graph.nodes))
        self.graph_module = adopted(self.graph_module)
        self.non_compute_ops = self.non_compute_ops or []
        self.allowed_single_node_partition_ops = self.allowed_single_node_partition_ops or []

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """The partitions, starting at the graph's end.

        From the last node to the first, a supported node opens a partition, and partitions are merged, in the order of
        their opening, unless that creates a cycle.
        """
        nodes = list(self.graph_module.graph.nodes)
        submodules = dict(self.graph_module.named_modules())
        growth = Growth(nodes)
        for order, node in enumerate(reversed(nodes)):
            own = [growth.open(node, order)] if self.operator_support.is_node_supported(submodules, node) else []
            if not self.skip_horizontal_fusion:
                growth.join([*own, *growth.in_order_of_opening()])
            elif own:
                growth.join([*own, *growth.that_use(node)])
        partitions = [Partition(number, members, members.values()) for number, members in growth]
        _keep_items_with_their_tuple(nodes, partitions)
        if not self.allows_single_node_partition:
            partitions = list(filter(self._is_worthwhile, partitions))
        logger.debug("Partitions proposed: %s", partitions)
        return [partition for partition in partitions if partition.size() > 0]

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
        for partition in partitions:
            for node in _bookends(partition, passive):
                partition.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Proposes partitions and fuses them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)


def _keep_items_with_their_tuple(nodes: list[Node], partitions: list[Partition]) -> None:
    """Moves ``getitem`` nodes to where the tuple is made, since partitions can only pass tensors."""
    homes = {node: partition for partition in partitions for node in partition.nodes}
    moves: dict[Node, Partition | None] = {}
    for node in nodes:
        if {_qualified_name_if_function(user) for user in node.users} == {"_operator.getitem"}:
            moves.update((item, homes.get(node)) for item in node.users if homes.get(item) is not homes.get(node))
    for item, home in moves.items():
        if item in homes:
            homes.pop(item).remove_node(item)
        if home is not None:
            homes[item] = home
            home.add_node(item)


def _bookends(partition: Partition, passive: set[str]) -> set[Node]:
    """The nodes of these functions at the beginning and end of the partition."""
    found: set[Node] = set()

    def is_outside(node: Node, edge: str) -> bool:
        return node.op == edge or node not in partition.nodes or node in found

    nodes = [node for node in partition.nodes if _qualified_name_if_function(node) in passive]
    for node in nodes:
        if all(is_outside(used, "placeholder") for used in node.all_input_nodes):
            found.add(node)
    for node in sorted(nodes, reverse=True):
        if all(is_outside(user, "output") for user in node.users):
            found.add(node)
    return found


def _qualified_name_if_function(node: Node) -> str | None:
    return _get_qualified_name(node.target) if node.op == "call_function" else None  # type: ignore[arg-type]
