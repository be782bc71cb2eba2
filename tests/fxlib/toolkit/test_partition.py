"""Fusing, sorting, support and partitions, against torch.fx."""

import copy
import operator
import random

import pytest
import torch

from .both import assert_same


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
        self.sub = torch.nn.Module()
        self.sub.c = torch.nn.Linear(2, 2)
        self.w = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("bb", torch.ones(2))

    def forward(self, x, y):
        a = self.l(x)
        b = self.sub.c(a) * self.w
        d = b + y + self.bb
        return d + torch.relu(a), a


def traced(side):
    gm = side().symbolic_trace(Model())
    return gm, {node.name: node for node in gm.graph.nodes}


def random_module(side, seed):
    """The same random graph on either side: elementwise operators, and chunks with their items."""
    choose = random.Random(seed)
    graph = side().Graph()
    values = [graph.placeholder(f"x{i}") for i in range(3)]
    for _ in range(10 + seed * 3):
        function = choose.choice([torch.add, torch.mul, torch.relu, torch.neg, torch.sigmoid, torch.chunk])
        if function in (torch.add, torch.mul):
            values.append(graph.call_function(function, (choose.choice(values[-12:]), choose.choice(values[-12:]))))
        elif function is torch.chunk:
            pair = graph.call_function(function, (choose.choice(values[-12:]), 2))
            values += [graph.call_function(operator.getitem, (pair, i)) for i in range(2)]
        else:
            values.append(graph.call_function(function, (choose.choice(values[-12:]),)))
    graph.output(tuple(value for value in values if not value.users))
    return side().GraphModule({}, graph)


def test_fuse():
    def scenario(side):
        fuser = side("passes.utils.fuser_utils")
        gm, named = traced(side)
        part = [named["add"], named["mul"], named["sub_c"], named["w"]]
        side.attempt(lambda: fuser.topo_sort(part))
        for names in (["add", "mul", "sub_c", "w"], ["l", "add"], ["l", "relu"], ["add", "add_2"]):
            side.attempt(lambda names=names: fuser.validate_partition([named[name] for name in names]))
        for always in (False, True):
            fused, inputs, outputs = fuser.fuse_as_graphmodule(
                gm, fuser.topo_sort(part), "fused_0", always_return_tuple=always
            )
            side.report(fused.code, type(fused).__name__, inputs, outputs, list(fused.state_dict()))
            side.report([(node.name, node.meta) for node in fused.graph.nodes])
        side.attempt(lambda: fuser.fuse_as_graphmodule(gm, part, "unsorted"))
        side.attempt(lambda: fuser.fuse_as_graphmodule(traced(side)[0], part, "of another graph"))
        fused, inputs, outputs = fuser.fuse_as_graphmodule(gm, [named["l"], named["sub_c"]], "pair")
        fuser.insert_subgm(gm, fused, inputs, outputs)
        side.report(gm.graph)
        fuser.erase_nodes(gm, [named["l"], named["sub_c"]])
        gm.graph.lint()
        side.report(gm.graph)

    assert_same(scenario, at_least=12)


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(
    "partitions",
    [
        [["add", "mul", "sub_c", "w"], ["l", "relu"]],
        [["l", "add"]],
        [["l", "relu"]],
        [["relu"], ["l"], ["add_2", "add_1"]],
    ],
    ids=str,
)
def test_fuse_by_partitions(partitions, always):
    def scenario(side):
        gm, named = traced(side)
        x = torch.arange(4.0).reshape(2, 2)
        with torch.no_grad():
            for parameter in gm.parameters():
                parameter.fill_(0.5)
        before = gm(x, x)

        def fuse():
            result = side("passes.utils.fuser_utils").fuse_by_partitions(
                gm, [dict.fromkeys(named[name] for name in names) for names in partitions], "part_", always
            )
            torch.testing.assert_close(result(x, x), before)
            parts = [(name, part.code) for name, part in result.named_children() if name.startswith("part_")]
            return result is gm, result.code, parts, [(node, node.meta) for node in result.graph.nodes]

        side.attempt(fuse)

    assert_same(scenario)


def test_lift_and_compare():
    def scenario(side):
        common = side("passes.utils.common")
        graph = side().Graph()
        x = graph.placeholder("x")
        called = graph.call_module("l", (x,))
        graph.output(graph.call_function(torch.add, (called, graph.create_node("get_attr", "sub.c.weight"))))
        lifted, names = common.lift_subgraph_as_module(traced(side)[0], graph, comp_name="C", class_name="K")
        side.report(type(lifted).__name__, names, lifted.code, list(lifted.state_dict()), lifted)
        side.report(common.HolderModule({"a": torch.nn.Linear(1, 1), "b": None}))
        functions = [lambda x: torch.relu(x) + 1, lambda y: torch.relu(y) + 2, lambda x, y: torch.relu(x) + y]
        graphs = [side().symbolic_trace(function).graph for function in functions]
        side.report([[common.compare_graphs(one, two) for one in graphs] for two in graphs])

    assert_same(scenario, at_least=3)


def test_sorting():
    def scenario(side):
        tools = side("passes.tools_common")
        for seed in range(60):
            choose = random.Random(seed)
            graph = side().Graph()
            values = [graph.placeholder(f"x{i}") for i in range(choose.randint(1, 4))]
            for _ in range(choose.randint(3, 25)):
                function = choose.choice([torch.add, torch.add, operator.mul])
                arguments = tuple(choose.choice(values[-8:]) for _ in range(2))
                values.append(graph.call_function(function, arguments))
            graph.output(tuple(value for value in values if not value.users))
            calls = [node for node in graph.nodes if node.op == "call_function"]
            for _ in range(5 * (seed % 2)):
                choose.choice(calls).append(choose.choice(calls))
            for sort in (tools.legalize_graph, tools.stable_topological_sort)[: 2 - seed % 2]:
                gm = side().GraphModule({}, copy.deepcopy(graph) if seed % 2 == 0 else graph)
                side.report([node.name for node in sort(gm).graph.nodes])
        graph = side().Graph()
        first = graph.call_function(torch.relu, (graph.placeholder("x"),))
        second = graph.call_function(torch.neg, (first,))
        first.args = (second,)
        graph.output(second)
        gm = side().GraphModule({}, graph)
        side.attempt(lambda: tools.legalize_graph(gm))
        side.attempt(lambda: tools.stable_topological_sort(gm))

    assert_same(scenario, at_least=90)


SUPPORTED = [("add", "mul", "getitem", "chunk"), ("relu", "neg", "getitem"), ("add", "relu", "sigmoid")]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"allows_single_node_partition": True},
        {"skip_horizontal_fusion": True, "allows_single_node_partition": True},
        {"non_compute_ops": ["torch.neg"], "allowed_single_node_partition_ops": ["torch.relu"]},
    ],
    ids=str,
)
def test_partitions(settings):
    def scenario(side):
        partitioner = side("passes.infra.partitioner").CapabilityBasedPartitioner
        create = side("passes.operator_support").create_op_support
        for seed in range(18):
            for names in SUPPORTED:
                gm = random_module(side, seed)
                support = create(lambda modules, node, names=names: getattr(node.target, "__name__", "") in names)
                partitions = (made := partitioner(gm, support, **settings)).propose_partitions()
                side.report([(part.id, list(part.nodes.items()), part.size()) for part in partitions])
                made.remove_bookend_non_compute_ops(partitions)
                side.report([list(part.nodes.items()) for part in partitions])
                if all(part.nodes for part in partitions):
                    fused = made.fuse_partitions(partitions)
                    fused.graph.lint()
                    side.report(fused.code)

    assert_same(scenario, at_least=100)


def test_support():
    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.l = torch.nn.Linear(2, 2)

        def forward(self, x, y):
            return torch.relu(self.l(x)) + y.neg() * torch.add(x, other=y)

    floats, ints = [torch.float], [torch.int]
    tables = [
        {},
        {"torch.relu": None, "neg": None},
        {
            "torch.nn.modules.linear.Linear": ((floats,), {}),
            "_operator.add": ((ints,), {}),
            "torch.add": ((None,), {"other": floats}),
        },
        {"_operator.mul": ((None, ints), {}), "torch.add": ((), {"other": ints})},
    ]

    def scenario(side):
        support = side("passes.operator_support")
        gm = side().symbolic_trace(Calls())
        inputs = torch.ones(2, 2), torch.ones(2, 2)
        side("passes.shape_prop").ShapeProp(gm).propagate(*inputs)
        modules = dict(gm.named_modules())
        supports = [support.OperatorSupport(table) for table in tables]
        by_type = support.OpSupports.decline_if_input_dtype(torch.float)
        by_name = support.OpSupports.decline_if_node_in_names({"relu"})
        supports += [by_type, by_name, support.chain(by_type, by_name), support.any_chain(by_type, by_name)]
        for entry in supports:
            side.report([(n, entry.is_node_supported(modules, n)) for n in gm.graph.nodes if n.op != "output"])
        tools = side("passes.tools_common")
        for node in gm.graph.nodes:
            side.attempt(lambda node=node: tools.get_node_target(modules, node))
            side.attempt(lambda node=node: tools.is_node_output_tensor(node))
        for kind in ("a", torch.nn.Linear, int):
            side.attempt(lambda kind=kind: tools.get_acc_ops_name(kind))

    assert_same(scenario, at_least=22)
