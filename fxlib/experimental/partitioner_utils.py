"""Partitions of a graph, the devices that they run on, and what running them costs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, NamedTuple

from ..node import Node

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

_READS = ("placeholder", "get_attr")  # taken into every partition that uses them


class Partition:
    """Nodes that run together, and on which devices.

    Nodes have ``size_bytes`` (``graph_manipulation.get_size_of_all_nodes``).
    """

    def __init__(self, partition_id: int) -> None:
        self.nodes: set[Node] = set()
        self.partition_id = partition_id
        self.parents: set[Partition] = set()
        self.children: set[Partition] = set()
        self.bfs_level: int = -1
        self.used_mem_bytes: int = 0
        self.logical_device_ids: list[int] = []

    def __str__(self) -> str:
        return str(self.partition_id)

    def recalculate_mem_size(self) -> None:
        """Counts the memory anew, after a change of ``nodes``."""
        self.used_mem_bytes = sum(get_extra_size_of(node, self.nodes) for node in self.nodes)

    def add_node(self, node: Node) -> None:
        """Adds a call, and the inputs and attributes of the module that it uses."""
        self.nodes.update(used for used in node.all_input_nodes if used.op in _READS)
        self.nodes.add(node)
        self.recalculate_mem_size()

    def remove_node(self, node: Node) -> None:
        """Takes a node out, and the inputs and attributes of the module that nothing else here uses."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        for used in node.all_input_nodes:
            if used.op in _READS and self.nodes.isdisjoint(used.users):
                self.nodes.discard(used)
        self.recalculate_mem_size()


class Device(NamedTuple):
    """A device: its memory in bytes, and the number by which partitions name it."""

    name: str
    available_mem_bytes: int
    logical_id: int


class NodeLatency(NamedTuple):
    """Seconds that a node spends on moving data and on computing; the two overlap."""

    mem_latency_sec: float
    computer_latency_sec: float


class PartitionLatency(NamedTuple):
    """Seconds on the longest path through a partition: moving data, computing, and the larger of both node by node."""

    mem_latency_sec: float
    computer_latency_sec: float
    overall_latency_sec: float


class PartitionMode(Enum):
    """How a ``Partitioner`` decides."""

    size_based = 0
    sparse_nn = 1
    cost_aware = 2
    kl_based = 3
    aot_based = 4


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


def get_extra_size_of(node: Node, nodes: set[Node]) -> int:
    """Bytes that a set of nodes needs more with ``node``: the node's own, and inputs from outside the set.

    Raises:
        RuntimeError: a node has no ``size_bytes``.
    """
    outside = [used for used in node.all_input_nodes if used not in nodes]
    return _size(node).total_size + sum(_size(used).output_size for used in outside)


def _size(node: Node) -> Any:
    size = getattr(node, "size_bytes", None)
    if size is None:
        raise RuntimeError(f"node {node.name} has no size_bytes: call get_size_of_all_nodes first")
    return size


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: dict[Node, NodeLatency]
) -> PartitionLatency:
    """The latency of the longest path through a partition."""

    nothing = PartitionLatency(0.0, 0.0, 0.0)

    def after(node: Node) -> list[Node]:
        return [user for user in node.users if user in partition.nodes]

    def latency(node: Node, known: dict[Node, PartitionLatency]) -> PartitionLatency:
        rest = max((known[user] for user in after(node)), key=_overall, default=nothing)
        if node.op in _READS:
            return rest
        memory, compute = node_to_latency_mapping[node]
        return PartitionLatency(rest[0] + memory, rest[1] + compute, rest[2] + max(memory, compute))

    return max(_from_the_end(partition.nodes, after, latency).values(), key=_overall, default=nothing)


def _overall(latency: PartitionLatency) -> tuple[float, ...]:
    return latency[::-1]  # of paths that take as long, always the same one


def _from_the_end(
    things: Collection[Any], after: Callable[[Any], Collection[Any]], value: Callable[[Any, dict[Any, Any]], Any]
) -> dict[Any, Any]:
    """``value(thing, values)`` for each thing, once those ``after`` it have theirs."""
    known: dict[Any, Any] = {}
    for start in things:
        stack = [start]
        while stack:
            waiting = [other for other in after(stack[-1]) if other not in known]
            if waiting:
                stack += waiting
            else:
                thing = stack.pop()
                known[thing] = value(thing, known)
    return known


def get_partition_to_latency_mapping(
    partitions: list[Partition], node_to_latency_mapping: dict[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """The latency of each partition."""
    return {partition: get_latency_of_one_partition(partition, node_to_latency_mapping) for partition in partitions}


def get_comm_latency_between(
    parent_partition: Partition, child_partition: Partition, transfer_rate_bytes_per_sec: float
) -> float:
    """Seconds that the values of one partition take to another one; none between those on the same devices."""
    devices = parent_partition.logical_device_ids
    if devices and devices == child_partition.logical_device_ids:
        return 0.0
    handed = {used for node in child_partition.nodes for used in node.all_input_nodes if used in parent_partition.nodes}
    return sum(_size(used).output_size for used in handed) / transfer_rate_bytes_per_sec


def get_latency_of_partitioned_graph(
    partitions: list[Partition],
    partition_to_latency_mapping: dict[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:
    """Seconds on the longest path through all partitions, with what is handed from one to the next."""

    def latency(partition: Partition, known: dict[Partition, float]) -> float:
        rest = [
            get_comm_latency_between(partition, child, transfer_rate_bytes_per_sec) + known[child]
            for child in partition.children
        ]
        return partition_to_latency_mapping[partition].overall_latency_sec + max(rest, default=0.0)

    known = _from_the_end(partitions, lambda partition: partition.children, latency)
    return max((known[partition] for partition in partitions if not partition.parents), default=0.0)
