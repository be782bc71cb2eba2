"""Partitions of a graph, the devices that they run on, and what running them costs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ..node import Node
from ..passes.graph_manipulation import size_bytes

__all__ = [
    "Device",
    "NodeLatency",
    "Partition",
    "PartitionLatency",
    "PartitionMode",
    "PartitionerConfig",
    "get_comm_latency_between",
    "get_extra_size_of",
    "get_latency_of_one_partition",
    "get_latency_of_partitioned_graph",
    "get_partition_to_latency_mapping",
]

_READS = ("placeholder", "get_attr")


class Device(NamedTuple):
    """A device: its memory in bytes, and the number by which partitions name it."""

    name: str
    available_mem_bytes: int
    logical_id: int


class PartitionMode(Enum):
    """How a ``Partitioner`` decides.

    By size alone; by size, with embeddings apart from the rest; by joining the partitions that cost the most time
    between them; by exchanging nodes between partitions as long as that saves time; or not at all, because the
    configuration says it.
    """

    size_based, sparse_nn, cost_aware, kl_based, aot_based = range(5)


class NodeLatency(NamedTuple):
    """Seconds that a node spends on moving data and on computing; the two overlap."""

    mem_latency_sec: float
    computer_latency_sec: float


class PartitionerConfig(NamedTuple):
    """What a ``Partitioner`` gets.

    Args:
        devices: where partitions can run.
        mode: how to decide.
        transfer_rate_bytes_per_sec: between devices; for ``cost_aware`` and ``kl_based``.
        node_to_latency_mapping: of each call; for the same.
        node_to_partition_mapping, partition_to_logical_device_mapping: the decision, for ``aot_based``.
        saturate_host: use idle devices for copies.
    """

    devices: list[Device]
    mode: PartitionMode = PartitionMode.size_based
    transfer_rate_bytes_per_sec: float = 0.0
    node_to_latency_mapping: dict[Node, NodeLatency] = {}
    node_to_partition_mapping: dict[Node, int] = {}
    partition_to_logical_device_mapping: dict[int, list[int]] = {}
    saturate_host: bool = False


class PartitionLatency(NamedTuple):
    """Seconds on the longest path through a partition: moving data, computing, and the larger of both node by node."""

    mem_latency_sec: float
    computer_latency_sec: float
    overall_latency_sec: float


class Partition:
    """Nodes that run together, and on which devices.

    Nodes have ``size_bytes`` (``graph_manipulation.get_size_of_all_nodes``).

    Attributes:
        partition_id: the number, by which it prints.
        nodes: what runs here, with the inputs and attributes of the module that it uses.
        used_mem_bytes: what ``nodes`` need.
        parents, children: the partitions that values come from and go to.
        bfs_level: how many partitions come before it at most; -1 where nobody has counted.
        logical_device_ids: the devices by number; several where there are copies.
    """

    def __init__(self, partition_id: int) -> None:
        self.partition_id = partition_id
        self.logical_device_ids: list[int] = []
        self.bfs_level = -1
        self.nodes: set[Node] = set()
        self.used_mem_bytes = 0
        self.parents: set[Partition] = set()
        self.children: set[Partition] = set()

    def __str__(self) -> str:
        return f"{self.partition_id}"

    def add_node(self, node: Node) -> None:
        """Adds a call, and the inputs and attributes of the module that it uses."""
        _size(node)  # a node without one is refused, and leaves the partition as it was
        grown = {node, *_read_by(node)} | self.nodes
        self.used_mem_bytes = _bytes_of(grown)
        self.nodes |= grown

    def remove_node(self, node: Node) -> None:
        """Takes a node out, and the inputs and attributes of the module that nothing else here uses."""
        self.nodes.discard(node)
        self.nodes -= {read for read in _read_by(node) if self.nodes.isdisjoint(read.users)}
        self.recalculate_mem_size()

    def recalculate_mem_size(self) -> None:
        """Counts the memory anew, after a change of ``nodes``."""
        self.used_mem_bytes = _bytes_of(self.nodes)


def get_extra_size_of(node: Node, nodes: set[Node]) -> int:
    """Bytes that a set of nodes needs more with ``node``: the node's own, and inputs from outside the set.

    Raises:
        RuntimeError: a node has no ``size_bytes``.
    """
    return _size(node).total_size + sum(_size(source).output_size for source in {*node.all_input_nodes} - nodes)


def get_comm_latency_between(
    parent_partition: Partition, child_partition: Partition, transfer_rate_bytes_per_sec: float
) -> float:
    """Seconds that the values of one partition take to another one; none between those on the same devices."""
    where = parent_partition.logical_device_ids
    if where and where == child_partition.logical_device_ids:
        return 0.0
    used = {source for node in child_partition.nodes for source in node.all_input_nodes}
    return sum(_size(sent).output_size for sent in used & parent_partition.nodes) / transfer_rate_bytes_per_sec


def get_partition_to_latency_mapping(
    partitions: list[Partition], node_to_latency_mapping: dict[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """The latency of each partition."""
    return {each: get_latency_of_one_partition(each, node_to_latency_mapping) for each in partitions}


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: dict[Node, NodeLatency]
) -> PartitionLatency:
    """The latency of the longest path through a partition.

    Raises:
        KeyError: a call of the partition has no latency.
    """
    # node -> the slowest way to its end, the overall time first, so that it decides
    ways: dict[Node, tuple[float, float, float]] = {}
    for node in sorted(partition.nodes):
        if node.op in _READS:
            continue
        if node not in node_to_latency_mapping:
            raise KeyError(f"node_to_latency_mapping has no latency for node {node}")
        moving, computing = node_to_latency_mapping[node]
        overall, moved, computed = _longest(ways[source] for source in node.all_input_nodes if source in ways)
        ways[node] = overall + max(moving, computing), moved + moving, computed + computing
    overall, moved, computed = _longest(ways.values())
    return PartitionLatency(moved, computed, overall)


def get_latency_of_partitioned_graph(
    partitions: list[Partition],
    partition_to_latency_mapping: dict[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:
    """Seconds on the longest path through all partitions, with what is handed from one to the next.

    Raises:
        RuntimeError: partitions need each other's values, so that none can be the first.
    """
    reached: dict[Partition, float] = {}
    for partition in _parents_first(partitions):
        begin = 0.0
        for parent in partition.parents & reached.keys():
            handed = get_comm_latency_between(parent, partition, transfer_rate_bytes_per_sec)
            begin = max(begin, reached[parent] + handed)
        reached[partition] = begin + partition_to_latency_mapping[partition].overall_latency_sec
    return max(reached.values(), default=0.0)


def _parents_first(partitions: list[Partition]) -> list[Partition]:
    listed = set(partitions)
    try:
        return list(TopologicalSorter({each: each.parents & listed for each in partitions}).static_order())
    except CycleError as error:
        circle = " -> ".join(map(str, reversed(error.args[1])))
        raise RuntimeError(f"partitions need each other's values: {circle}") from error


def _longest(ways: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    return max(ways, default=(0.0, 0.0, 0.0))


def _read_by(node: Node) -> set[Node]:
    """The inputs and attributes of the module that a node uses: they go where it goes."""
    return {source for source in node.all_input_nodes if source.op in _READS}


def _bytes_of(nodes: set[Node]) -> int:
    return sum(get_extra_size_of(node, nodes) for node in nodes)


def _size(node: Node) -> size_bytes:
    found: size_bytes | None = getattr(node, "size_bytes", None)
    if found is None:
        raise RuntimeError(f"node {node} has no size_bytes: call get_size_of_all_nodes first")
    return found
