"""Splitting a module over accelerators whose memory it exceeds, or such that it runs fast on several.

For stages of a pipeline see ``fxlib.passes.stages``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import NamedTuple

import torch

from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..passes.split_module import split_module
from ._partition_lists import (
    check_dependency,
    combine_two_partitions,
    get_bfs_level_partition,
    get_device_partition_stats,
    get_device_to_partitions_mapping,
    get_logical_id_to_device,
    get_node_to_partition_mapping,
    reorganize_partitions,
    reset_partition_device,
    set_parents_and_children,
)
from .partitioner_utils import (
    Device,
    NodeLatency,
    Partition,
    PartitionerConfig,
    PartitionMode,
    get_extra_size_of,
    get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping,
)

__all__ = [
    "DAG",
    "DAGNode",
    "PartitionResult",
    "Partitioner",
    "check_dependency",
    "combine_two_partitions",
    "get_bfs_level_partition",
    "get_device_partition_stats",
    "get_device_to_partitions_mapping",
    "get_logical_id_to_device",
    "get_node_to_partition_mapping",
    "reorganize_partitions",
    "reset_partition_device",
    "set_parents_and_children",
]

_CALLS = ("call_module", "call_method", "call_function")


class DAGNode:
    """A partition in the split module: its call, what it gets and who gets its results, its devices and bytes."""

    def __init__(
        self,
        submodule_node: Node,
        input_nodes: list[Node],
        output_nodes: list[Node],
        logical_device_ids: list[int],
        size_bytes: int,
    ) -> None:
        self.submodule_node = submodule_node
        self.input_nodes = input_nodes
        self.output_nodes = output_nodes
        self.logical_device_ids = logical_device_ids
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        return str(self.submodule_node)


class DAG:
    """The partitions of a split module in the order in which they run."""

    def __init__(self) -> None:
        self.nodes: list[DAGNode] = []

    def create_node(
        self,
        submodule_node: Node,
        input_nodes: list[Node],
        output_nodes: list[Node],
        logical_devices: list[int],
        size_bytes: int,
    ) -> None:
        """Appends a partition."""
        self.nodes.append(DAGNode(submodule_node, input_nodes, output_nodes, logical_devices, size_bytes))


class PartitionResult(NamedTuple):
    """The partitions, and the module that calls them one after another."""

    dag: DAG
    module_with_submodules: GraphModule


class Partitioner:
    """Splits a module over devices.

    Example::

        get_size_of_all_nodes(traced, [x])
        config = PartitionerConfig([Device("first", 2**30, 0), Device("second", 2**30, 1)])
        result = Partitioner().partition_graph(traced, model, config)
        [node.logical_device_ids for node in result.dag.nodes]  # [[0], [1]]
    """

    def __init__(self) -> None:
        self.partitions: list[Partition] = []
        self.node_to_partition: dict[Node, int] = {}
        self.devices: list[Device] = []

    def partition_graph(
        self, fx_module: GraphModule, torch_module: torch.nn.Module, partitioner_config: PartitionerConfig
    ) -> PartitionResult:
        """Splits ``fx_module``, traced from ``torch_module``; its nodes have ``size_bytes``.

        What fits onto one device stays one partition, on the largest device.

        Raises:
            RuntimeError: no devices, or none with memory for a node or for all.
            NotImplementedError: ``sparse_nn`` on devices of different memory.
        """
        self.graph_module = fx_module
        self.torch_module = torch_module
        self.devices = devices = partitioner_config.devices
        if not devices:
            raise RuntimeError("No devices")
        sizes = [get_extra_size_of(node, set(node.all_input_nodes)) for node in self._nodes()]
        largest = max(devices, key=lambda device: device.available_mem_bytes)
        mode, rate = partitioner_config.mode, partitioner_config.transfer_rate_bytes_per_sec
        latencies = partitioner_config.node_to_latency_mapping
        if mode == PartitionMode.aot_based:
            self.aot_based_partition(
                partitioner_config.node_to_partition_mapping, partitioner_config.partition_to_logical_device_mapping
            )
        elif sum(sizes) <= largest.available_mem_bytes:
            self.find_single_partition(sum(sizes), logical_device_id=largest.logical_id)
        elif sum(sizes) > sum(device.available_mem_bytes for device in devices):
            raise RuntimeError("Devices have no enough memory for the module")
        elif mode == PartitionMode.sparse_nn:
            if len({device.available_mem_bytes for device in devices}) > 1:
                raise NotImplementedError("All devices must have same memory size!")
            self.sparse_nn_partition(largest.available_mem_bytes)
        elif mode == PartitionMode.cost_aware:
            self.cost_aware_partition(rate, latencies)
        elif mode == PartitionMode.kl_based:
            self.kl_based_partition(rate, latencies)
        else:
            self.size_based_partition()
        if partitioner_config.saturate_host:
            self.saturate_host()
        split = self.do_partition()
        return PartitionResult(self.dump_dag(split), split)

    def find_single_partition(self, total_size_of_graph: int, logical_device_id: int = 0) -> None:
        """Puts everything onto one device."""
        partition = self.create_partition()
        partition.nodes = set(self._nodes())
        partition.used_mem_bytes = total_size_of_graph
        partition.logical_device_ids = [logical_device_id]

    def size_based_partition(self) -> None:
        """Fills one device after another with the nodes in their order; what is left goes where there is room.

        Raises:
            RuntimeError: there is no room for a node.
        """
        free = list(self.devices)
        partition, room = None, 0
        for node in self._calls():
            if partition is None or self._needed(node, partition) > room - partition.used_mem_bytes:
                alone = self._needed(node)
                device = next((device for device in free if device.available_mem_bytes >= alone), None)
                if device is None:
                    if all(device.available_mem_bytes < alone for device in self.devices):
                        raise RuntimeError(f"{node} is too large to fit any device")
                    self.create_single_node_partition(node)
                    partition = None  # what follows may use this node, so no earlier partition can take it
                    continue
                free.remove(device)
                partition, room = self.create_partition(), device.available_mem_bytes
                partition.logical_device_ids = [device.logical_id]
            partition.add_node(node)
        reorganize_partitions(self.partitions)
        self._place()

    def saturate_host(self) -> None:
        """Puts copies of all partitions onto idle devices, as often as there are enough.

        Each device in use gets the smallest idle one that can hold what it holds.
        """
        placed, _, homeless = get_device_partition_stats(self.partitions, self.devices)
        if homeless:
            raise AssertionError(f"Expected no partitions without device, got {len(homeless)}")
        loads = {
            device: (sum(partition.used_mem_bytes for partition in there), there)
            for device, there in placed.items()
            if there
        }
        idle = sorted((d for d in self.devices if d not in loads), key=lambda d: d.available_mem_bytes)
        while True:
            copies: list[tuple[Device, list[Partition]]] = []
            rest = list(idle)
            for load, there in sorted(loads.values(), key=lambda item: item[0]):
                device = next((device for device in rest if device.available_mem_bytes >= load), None)
                if device is None:
                    return
                rest.remove(device)
                copies.append((device, there))
            for device, there in copies:
                for partition in there:
                    partition.logical_device_ids.append(device.logical_id)
            idle = rest

    def do_partition(self) -> GraphModule:
        """The module that calls one submodule for each partition."""
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        return split_module(self.graph_module, self.torch_module, self.node_to_partition.__getitem__)

    def dump_dag(self, module_with_submodules: GraphModule) -> DAG:
        """The partitions of the split module."""
        dag = DAG()
        for node in module_with_submodules.graph.nodes:
            if node.op != "call_module":
                continue
            inputs: dict[Node, None] = {}
            map_arg((node.args, node.kwargs), lambda used, inputs=inputs: inputs.setdefault(_source(used)))  # type: ignore[misc]
            outputs: dict[Node, None] = {}
            for user in node.users:
                outputs.update(dict.fromkeys(user.users if user.target is operator.getitem else [user]))
            partition = self.partitions[int(node.name.rsplit("_", 1)[-1])]
            dag.create_node(node, list(inputs), list(outputs), partition.logical_device_ids, partition.used_mem_bytes)
        return dag

    def create_partition(self) -> Partition:
        """A new partition at the end of ``partitions``."""
        partition = Partition(len(self.partitions))
        self.partitions.append(partition)
        return partition

    def create_single_node_partition(self, node: Node) -> None:
        """A new partition of one node."""
        self.create_partition().add_node(node)

    def sparse_nn_partition(self, available_mem_bytes: int) -> None:
        """Keeps embeddings apart from the rest, on devices of equal memory.

        Both are cut where memory is full, then joined as far as it goes. Each part with embeddings gets a device; the
        rest is on all of these, where memory is kept for it.

        Raises:
            RuntimeError: there is no room for a node, or there are too few devices.
        """
        partition, inside = None, False
        for node in self._calls():
            embedding = self._is_embedding(node)
            if (
                partition is None
                or embedding != inside
                or self._needed(node, partition) + partition.used_mem_bytes > available_mem_bytes
            ):
                if self._needed(node) > available_mem_bytes:
                    raise RuntimeError(f"{node} is too large to fit any device")
                partition, inside = self.create_partition(), embedding
            partition.add_node(node)
        reorganize_partitions(self.partitions)
        self._join(available_mem_bytes, embedding=False)
        kept = sum(p.used_mem_bytes for p in self.partitions if not self._has_embedding(p))
        self._join(available_mem_bytes - kept, embedding=True)
        sparse = [p for p in self.partitions if self._has_embedding(p)]
        if len(sparse) > len(self.devices) or any(p.used_mem_bytes + kept > available_mem_bytes for p in sparse):
            raise RuntimeError("Devices have no enough memory for the module")
        for device, partition in zip(self.devices, sparse, strict=False):
            partition.logical_device_ids = [device.logical_id]
        used = [number for partition in sparse for number in partition.logical_device_ids]
        for partition in self.partitions:
            if partition not in sparse:
                partition.logical_device_ids = list(used) or [self.devices[0].logical_id]

    def cost_aware_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Begins with a partition for each node, and joins the two that make the whole fastest while any do.

        Only those that follow each other directly, or are at most one level apart, are tried.

        Raises:
            RuntimeError: there is no room for a node.
        """
        for node in self._calls():
            self.create_single_node_partition(node)
        self._place()
        cost = self._cost(transfer_rate_bytes_per_sec, node_to_latency_mapping)
        while len(self.partitions) > 1:
            best = None
            get_bfs_level_partition(self.partitions)
            for first, second in itertools.combinations(range(len(self.partitions)), 2):
                a, b = self.partitions[first], self.partitions[second]
                if abs(a.bfs_level - b.bfs_level) > 1 and a not in b.children and b not in a.children:
                    continue
                tried = self._joined(first, second)
                if tried is None:
                    continue
                found = self._cost(transfer_rate_bytes_per_sec, node_to_latency_mapping, tried)
                if found < cost:
                    cost, best = found, tried
            if best is None:
                break
            self.partitions = best
        reorganize_partitions(self.partitions)

    def kl_based_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Begins with ``size_based_partition``, then moves each node to another partition, or exchanges it with one
        there, where that fits and makes the whole faster.
        """
        self.size_based_partition()
        cost = self._cost(transfer_rate_bytes_per_sec, node_to_latency_mapping)
        for node in self._calls():
            home = next(p for p in self.partitions if node in p.nodes)
            best = None
            for other in self.partitions:
                if other is home or len([n for n in home.nodes if n.op in _CALLS]) < 2:
                    continue
                for partner in (None, *(n for n in self._calls() if n in other.nodes)):
                    self._exchange(node, home, partner, other)
                    if self._is_valid():
                        found = self._cost(transfer_rate_bytes_per_sec, node_to_latency_mapping)
                        if found < cost:
                            cost, best = found, (partner, other)
                    self._exchange(node, other, partner, home)
            if best is not None:
                partner, other = best
                self._exchange(node, home, partner, other)
        reorganize_partitions(self.partitions)

    def aot_based_partition(
        self, node_to_partition_mapping: dict[Node, int], partition_to_logical_device_mapping: dict[int, list[int]]
    ) -> None:
        """Makes the partitions that the mappings say."""
        made = {number: self.create_partition() for number in sorted(set(node_to_partition_mapping.values()))}
        for node in self._calls():
            made[node_to_partition_mapping[node]].add_node(node)
        for number, partition in made.items():
            partition.logical_device_ids = list(partition_to_logical_device_mapping[number])
        set_parents_and_children(self.partitions)

    def _nodes(self) -> Iterable[Node]:
        return [node for node in self.graph_module.graph.nodes if node.op != "output"]

    def _calls(self) -> list[Node]:
        return [node for node in self.graph_module.graph.nodes if node.op in _CALLS]

    def _is_embedding(self, node: Node) -> bool:
        kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
        return node.op == "call_module" and isinstance(self.graph_module.get_submodule(str(node.target)), kinds)

    def _has_embedding(self, partition: Partition) -> bool:
        return any(map(self._is_embedding, partition.nodes))

    def _needed(self, node: Node, partition: Partition | None = None) -> int:
        """Bytes that a partition, or a new one, needs more with a call."""
        tried = Partition(0)
        tried.nodes = set() if partition is None else set(partition.nodes)
        tried.add_node(node)
        return tried.used_mem_bytes - (0 if partition is None else partition.used_mem_bytes)

    def _joined(self, first: int, second: int) -> list[Partition] | None:
        """Copies of all partitions with two of them as one, on devices; ``None`` where that cannot be."""
        copies = []
        for partition in self.partitions:
            copied = Partition(partition.partition_id)
            copied.nodes, copied.used_mem_bytes = set(partition.nodes), partition.used_mem_bytes
            copies.append(copied)
        combine_two_partitions(copies[first], copies[second], copies)
        if check_dependency(copies[-1]) or not get_device_to_partitions_mapping(copies, self.devices):
            return None
        return copies

    def _join(self, room: int, embedding: bool) -> None:
        """Joins partitions of one kind while they fit into ``room`` and none would need its own result."""
        again = True
        while again:
            again = False
            some = [partition for partition in self.partitions if self._has_embedding(partition) == embedding]
            for a, b in itertools.combinations(some, 2):
                tried = list(self.partitions)
                combine_two_partitions(a, b, tried)
                if tried[-1].used_mem_bytes <= room and not check_dependency(tried[-1]):
                    self.partitions = tried
                    again = True
                    break
            reorganize_partitions(self.partitions)

    def _place(self) -> None:
        if not get_device_to_partitions_mapping(self.partitions, self.devices):
            raise RuntimeError("Cannot Get a Valid Partition to Logical Device Mapping")

    def _cost(
        self, rate: float, latencies: dict[Node, NodeLatency], partitions: list[Partition] | None = None
    ) -> float:
        partitions = self.partitions if partitions is None else partitions
        reorganize_partitions(partitions)
        return get_latency_of_partitioned_graph(
            partitions, get_partition_to_latency_mapping(partitions, latencies), rate
        )

    def _exchange(self, node: Node, home: Partition, partner: Node | None, other: Partition) -> None:
        """Moves ``node`` from ``home`` to ``other``, and ``partner`` the other way."""
        home.remove_node(node)
        if partner is not None:
            other.remove_node(partner)
            home.add_node(partner)
        other.add_node(node)

    def _is_valid(self) -> bool:
        """Whether no partition waits for itself, and each device has room for its own."""
        reorganize_partitions(self.partitions)
        _, left, _ = get_device_partition_stats(self.partitions, self.devices)
        return min(left.values()) >= 0 and not any(map(check_dependency, self.partitions))


def _source(node: Node) -> Node:
    """What a value is an item of."""
    while node.op == "call_function" and node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return node
