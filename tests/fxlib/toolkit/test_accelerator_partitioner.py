"""Splitting over devices: sizes, latencies and orders against torch.fx; every mode keeps memory limits and results."""

import random

import pytest
import torch

from fxlib import symbolic_trace
from fxlib.experimental.accelerator_partitioner import (
    Partitioner,
    check_dependency,
    get_device_partition_stats,
    set_parents_and_children,
)
from fxlib.experimental.partitioner_utils import (
    Device,
    NodeLatency,
    Partition,
    PartitionerConfig,
    PartitionMode,
    get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping,
)
from fxlib.passes.graph_manipulation import get_size_of_all_nodes

from .both import Side, assert_same


class Random(torch.nn.Module):
    """A random program over vectors of four, with parameters, constants and small layers."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        choose = random.Random(seed)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(choose.randint(1, 3)))
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.constant = torch.ones(4)

    def forward(self, a, b):
        choose = random.Random(self.seed + 1)
        values = [a, b]
        for _ in range(choose.randint(5, 9)):
            kind = choose.randint(0, 3)
            if kind == 0:
                values.append(choose.choice(list(self.layers))(choose.choice(values[-4:])))
            elif kind == 1:
                values.append(choose.choice(values[-4:]) + choose.choice(values))
            elif kind == 2:
                values.append(torch.relu(choose.choice(values[-4:])) * self.scale)
            else:
                values.append(choose.choice(values[-4:]) - self.constant)
        return values[-1] + values[-2]


def sized(side, seed):
    model = Random(seed)
    gm = side().symbolic_trace(model)
    side("passes.graph_manipulation").get_size_of_all_nodes(gm, [torch.ones(4), torch.ones(4)])
    return model, gm


def latencies(gm, kind):
    return {
        node: kind(node.size_bytes.total_size, 2.0 * node.size_bytes.output_size)
        for node in gm.graph.nodes
        if node.op not in ("placeholder", "get_attr", "output")
    }


@pytest.mark.parametrize("seed", range(10))
def test_sizes_latencies_and_levels(seed):
    """The same partitions on either side: contiguous runs of calls on random devices."""

    def scenario(side):
        utils, lists = side("experimental.partitioner_utils"), side("experimental.accelerator_partitioner")
        _, gm = sized(side, seed)
        choose = random.Random(seed)
        devices = [utils.Device(f"d{i}", 10000, i) for i in range(3)]
        partitions = [utils.Partition(i) for i in range(4)]
        calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
        for index, node in enumerate(calls):
            partitions[index * 4 // len(calls)].add_node(node)
        for partition in partitions[:3]:
            partition.logical_device_ids = [choose.randint(0, 2)]
        lists.set_parents_and_children(partitions)
        lists.get_bfs_level_partition(partitions)
        for partition in partitions:
            side.report(partition, partition.used_mem_bytes, sorted(map(str, partition.children)))
            side.report(sorted(map(str, partition.parents)), partition.bfs_level, lists.check_dependency(partition))
        _, _, homeless = lists.get_device_partition_stats(partitions, devices)
        side.report([str(p) for p in homeless], lists.get_logical_id_to_device(devices))
        spent = utils.get_partition_to_latency_mapping(partitions, latencies(gm, utils.NodeLatency))
        side.report([spent[partition].overall_latency_sec for partition in partitions])
        for parent in partitions[:-1]:
            side.report(
                [utils.get_comm_latency_between(parent, child, 2.0) for child in sorted(parent.children, key=str)]
            )
        side.report(utils.get_latency_of_partitioned_graph(partitions, spent, 2.0))
        side.report(lists.get_device_to_partitions_mapping(partitions, devices))
        last = partitions[1]
        last.remove_node(next(node for node in calls if node in last.nodes))
        side.report(last.used_mem_bytes, sorted(map(str, last.nodes)))
        lists.combine_two_partitions(partitions[0], partitions[2], partitions)
        side.report([(str(p), p.used_mem_bytes, sorted(map(str, p.nodes))) for p in partitions])

    assert_same(scenario, at_least=16)


def check(model, gm, partitioner, result, inputs, devices):
    expected = model(*inputs)
    torch.testing.assert_close(result.module_with_submodules(*inputs), expected)
    calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
    assert sorted(node.name for p in partitioner.partitions for node in p.nodes if node in calls) == sorted(
        map(str, calls)
    )
    assert len(result.dag.nodes) == len(partitioner.partitions)
    for node in result.dag.nodes:
        assert node.logical_device_ids and set(node.logical_device_ids) <= {device.logical_id for device in devices}
        assert node.input_nodes and (node.output_nodes or not node.submodule_node.users)
    assert not any(map(check_dependency, partitioner.partitions))


@pytest.mark.parametrize("mode", [PartitionMode.size_based, PartitionMode.cost_aware, PartitionMode.kl_based])
def test_modes(mode):
    split = 0
    for seed in range(12):
        model, gm = sized(Side("fxlib"), seed)
        inputs = torch.rand(4), torch.rand(4)
        devices = [Device(f"d{i}", size, i) for i, size in enumerate((200, 180, 160, 160))]
        partitioner = Partitioner()
        config = PartitionerConfig(devices, mode, 2.0, latencies(gm, NodeLatency))
        try:
            result = partitioner.partition_graph(gm, model, config)
        except RuntimeError as error:
            assert "Devices have no enough" in str(error) or "Mapping" in str(error)
            continue
        check(model, gm, partitioner, result, inputs, devices)
        split += len(partitioner.partitions) > 1
        for device in devices:
            there = set().union(*(p.nodes for p in partitioner.partitions if device.logical_id in p.logical_device_ids))
            assert sum(node.size_bytes.total_size for node in there) <= device.available_mem_bytes
        if mode != PartitionMode.size_based:
            plain = Partitioner()
            try:
                plain.partition_graph(gm, model, PartitionerConfig(devices))
            except RuntimeError:
                continue
            if mode == PartitionMode.kl_based:
                cost = []
                for of in (partitioner, plain):
                    set_parents_and_children(of.partitions)
                    spent = get_partition_to_latency_mapping(of.partitions, latencies(gm, NodeLatency))
                    cost.append(get_latency_of_partitioned_graph(of.partitions, spent, 2.0))
                assert cost[0] <= cost[1]
    assert split >= 5


class Recommender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bottom = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.tables = torch.nn.ModuleList(torch.nn.EmbeddingBag(rows, 4) for rows in (500, 1000, 1000, 500))
        self.top = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def forward(self, x, index, offset):
        looked_up = [table(index + 0, offset) for table in self.tables]
        return self.top(torch.cat([self.bottom(x), *looked_up], dim=1))


def test_embeddings_apart_and_copies():
    model = Recommender()
    inputs = torch.rand(2, 4), torch.randint(500, (8,)), torch.tensor([0, 4])
    gm = symbolic_trace(model)
    get_size_of_all_nodes(gm, list(inputs))
    devices = [Device(f"d{i}", 40_000, i) for i in range(3)]
    partitioner = Partitioner()
    result = partitioner.partition_graph(gm, model, PartitionerConfig(devices, PartitionMode.sparse_nn))
    check(model, gm, partitioner, result, inputs, devices)
    kinds = [
        {node.op == "call_module" and "tables" in node.target for node in p.nodes if node.op.startswith("call")}
        for p in partitioner.partitions
    ]
    assert all(len(kind) == 1 for kind in kinds) and {True} in kinds and {False} in kinds
    uneven = [*devices[:2], Device("d2", 41_000, 2)]
    with pytest.raises(NotImplementedError, match="same memory size"):
        Partitioner().partition_graph(gm, model, PartitionerConfig(uneven, PartitionMode.sparse_nn))
    with pytest.raises(RuntimeError, match="No devices"):
        Partitioner().partition_graph(gm, model, PartitionerConfig([]))
    with pytest.raises(RuntimeError, match="too large to fit any device"):
        Partitioner().partition_graph(gm, model, PartitionerConfig([Device(str(i), 9_000, i) for i in range(9)]))

    many = [Device(f"d{i}", 30_000, i) for i in range(7)]
    partitioner = Partitioner()
    partitioner.partition_graph(gm, model, PartitionerConfig(many, saturate_host=True))
    used = [number for p in partitioner.partitions for number in p.logical_device_ids]
    assert len(partitioner.partitions) > 1 and all(len(p.logical_device_ids) > 1 for p in partitioner.partitions)
    placed, left, homeless = get_device_partition_stats(partitioner.partitions, many)
    assert not homeless and min(left.values()) >= 0 and len(set(used)) == sum(map(bool, placed.values()))


def test_what_has_no_latency_or_no_size_is_named():
    gm = symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
    first, second = Partition(0), Partition(1)
    linear, relu = gm.graph.find_nodes(op="call_module")
    with pytest.raises(RuntimeError, match="node _0 has no size_bytes: call get_size_of_all_nodes first"):
        first.add_node(linear)
    assert not first.nodes and not first.used_mem_bytes
    get_size_of_all_nodes(gm, [torch.ones(4)])
    first.add_node(linear)
    second.add_node(relu)
    with pytest.raises(KeyError, match="no latency for node _1"):
        get_partition_to_latency_mapping([first, second], {linear: NodeLatency(1.0, 2.0)})
    spent = get_partition_to_latency_mapping([first, second], dict.fromkeys((linear, relu), NodeLatency(1.0, 2.0)))
    for one, other in ((first, second), (second, first)):
        one.children.add(other)
        other.parents.add(one)
    with pytest.raises(RuntimeError, match=r"partitions need each other's values: (0 -> 1 -> 0|1 -> 0 -> 1)"):
        get_latency_of_partitioned_graph([first, second], spent, 2.0)


def test_sizes_of_several_tensors_and_of_numbers():
    def f(x):
        first, second = x.chunk(2)
        return first.half(), second.half(), x.size(0)

    gm = symbolic_trace(f)
    get_size_of_all_nodes(gm, [torch.ones(4, 2)])
    sizes = {node.name: node.size_bytes.total_size for node in gm.graph.nodes if node.op != "output"}
    assert sizes == {
        "x": 32, "chunk": 32, "getitem": 16, "getitem_1": 16, "half": 8, "half_1": 8, "size": 0,
    }  # fmt: skip
