"""Operations on all partitions of a graph: who follows whom, what fits together, what goes onto which device."""

from __future__ import annotations

from ..node import Node
from .partitioner_utils import Device, Partition, get_extra_size_of

__all__ = [
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


def reset_partition_device(partitions: list[Partition]) -> None:
    """Takes all partitions off their devices."""
    for partition in partitions:
        partition.logical_device_ids = []


def combine_two_partitions(partition_0: Partition, partition_1: Partition, partitions: list[Partition]) -> None:
    """Puts one partition with the nodes of both at the end of the list in their place."""
    joined = Partition(len(partitions))
    joined.nodes = partition_0.nodes | partition_1.nodes
    joined.recalculate_mem_size()
    partitions.append(joined)
    partitions.remove(partition_0)
    partitions.remove(partition_1)
    reorganize_partitions(partitions)


def set_parents_and_children(partitions: list[Partition]) -> None:
    """Sets, for each partition, which ones it gets values from and which ones it hands values to."""
    homes: dict[Node, list[Partition]] = {}
    for partition in partitions:
        partition.children, partition.parents = set(), set()
        for node in partition.nodes:
            homes.setdefault(node, []).append(partition)
    for partition in partitions:
        for node in partition.nodes:
            for user in node.users:
                for other in homes.get(user, ()):
                    # Inputs and attributes of the module are in each partition that uses them.
                    if other is not partition and node not in other.nodes:
                        partition.children.add(other)
                        other.parents.add(partition)


def reorganize_partitions(partitions: list[Partition]) -> None:
    """Numbers the partitions anew, and sets who follows whom."""
    for number, partition in enumerate(partitions):
        partition.partition_id = number
    set_parents_and_children(partitions)


def get_bfs_level_partition(partitions: list[Partition]) -> None:
    """Sets ``bfs_level``: 0 without parents, else one more than the last parent's. Partitions in a circle have none."""
    for partition in partitions:
        partition.bfs_level = -1
    missing = {partition: len(partition.parents) for partition in partitions}
    level = [partition for partition, count in missing.items() if not count]
    for number in range(len(partitions)):
        following = []
        for partition in level:
            partition.bfs_level = number
            for child in partition.children:
                missing[child] -= 1
                if not missing[child]:
                    following.append(child)
        level = following


def get_node_to_partition_mapping(partitions: list[Partition]) -> dict[Node, int]:
    """The number of each node's partition."""
    return {node: partition.partition_id for partition in partitions for node in partition.nodes}


def get_logical_id_to_device(devices: list[Device]) -> dict[int, Device]:
    """The devices by number."""
    return {device.logical_id: device for device in devices}


def get_device_partition_stats(
    partitions: list[Partition], devices: list[Device]
) -> tuple[dict[Device, list[Partition]], dict[Device, int], list[Partition]]:
    """The partitions on each device, the bytes left there, and the partitions on none."""
    by_id = get_logical_id_to_device(devices)
    placed: dict[Device, list[Partition]] = {device: [] for device in devices}
    left = {device: device.available_mem_bytes for device in devices}
    homeless = []
    for partition in partitions:
        for number in partition.logical_device_ids:
            placed[by_id[number]].append(partition)
            left[by_id[number]] -= partition.used_mem_bytes
        if not partition.logical_device_ids:
            homeless.append(partition)
    return placed, left, homeless


def get_device_to_partitions_mapping(partitions: list[Partition], devices: list[Device]) -> bool:
    """Puts each partition that is on no device onto one with memory for it, the largest first.

    What a device holds already is not counted twice.

    Returns:
        whether all have found one.
    """
    placed, left, homeless = get_device_partition_stats(partitions, devices)
    found = True
    for partition in sorted(homeless, key=lambda homeless: homeless.used_mem_bytes, reverse=True):
        for device in sorted(devices, key=lambda device: device.available_mem_bytes):
            there = set().union(*(other.nodes for other in placed[device]))
            new = sum(get_extra_size_of(node, there | partition.nodes) for node in partition.nodes - there)
            if new <= left[device]:
                partition.logical_device_ids.append(device.logical_id)
                placed[device].append(partition)
                left[device] -= new
                break
        else:
            found = False
    return found


def check_dependency(partition: Partition) -> bool:
    """Whether a partition needs, through others, its own result."""
    waiting, seen = [partition], {partition}
    while waiting:
        for child in waiting.pop().children:
            if child is partition:
                return True
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False
