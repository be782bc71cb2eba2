"""The subgraph matcher, against torch.fx."""

import pytest
import torch
import torch.nn.functional as F

import fxlib
from fxlib.passes.utils.matcher_utils import SubgraphMatcher

from .both import assert_same


def two_chains(x):
    return torch.exp(torch.relu(x)), torch.abs(torch.neg(x))


PATTERNS = [
    lambda x: torch.relu(x),
    lambda x: torch.exp(torch.relu(x)),
    lambda x, y: (torch.exp(x), torch.abs(y)),
    lambda x: x + 1,
    lambda x, y: x + y,
    lambda x, y: (x + y) * y,
    two_chains,
]
GRAPHS = [
    two_chains,
    lambda x: torch.relu(x),
    lambda x: torch.relu(x) + 1,
    lambda x, y: (x + 2) + (y + 2),
    lambda x: (x + 3) * 3 + (x + 4) * 5,
]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"match_output": True},
        {"match_placeholder": True},
        {"match_output": True, "match_placeholder": True},
        {"remove_overlapping_matches": False},
        {"ignore_literals": True},
    ],
    ids=str,
)
def test_matches(settings):
    def scenario(side):
        matcher = side("passes.utils.matcher_utils").SubgraphMatcher
        patterns, graphs = ({each: side().symbolic_trace(each).graph for each in group} for group in (PATTERNS, GRAPHS))
        for pattern in PATTERNS:
            for function in GRAPHS:
                # torch.fx raises KeyError where one of several anchors is nowhere to be found.
                if pattern in (two_chains, PATTERNS[2]) and function is not two_chains:
                    continue
                side.attempt(lambda p=pattern, f=function: matcher(patterns[p], **settings).match(graphs[f]))

    assert_same(scenario, at_least=25)


def test_an_anchor_that_is_nowhere_means_no_match():
    trace = fxlib.symbolic_trace
    assert SubgraphMatcher(trace(two_chains).graph).match(trace(lambda x: torch.exp(x)).graph) == []


def test_refused_patterns():
    def scenario(side):
        matcher = side("passes.utils.matcher_utils").SubgraphMatcher
        side.attempt(lambda: matcher(side().Graph()))

        def dead(a):
            torch.relu(a)
            return torch.sigmoid(a)

        side.attempt(lambda: matcher(side().symbolic_trace(dead).graph))
        graph = side().Graph()
        x = graph.placeholder("x")
        graph.output(graph.call_function(torch.add, (x, graph.create_node("get_attr", "o"))))
        owner = torch.nn.Module()
        owner.o = 3.0
        module = side().GraphModule(owner, graph)
        side.attempt(lambda: matcher(module.graph).match(module.graph))

    assert_same(scenario, at_least=3)


def test_pattern_that_is_only_a_parameter():
    def scenario(side):
        graph = side().Graph()
        graph.output(graph.placeholder("x"))
        matcher = side("passes.utils.matcher_utils").SubgraphMatcher(graph)
        side.report(matcher.match(side().symbolic_trace(two_chains).graph))

    assert_same(scenario)


def test_tensors_match_whatever_their_names():
    class Holds(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name
            setattr(self, name, torch.nn.Parameter(torch.ones(3)))

        def forward(self, x):
            return torch.mul(x, getattr(self, self.name)) + 1

    def scenario(side):
        trace = side().symbolic_trace
        matcher = side("passes.utils.matcher_utils").SubgraphMatcher
        side.report(matcher(trace(Holds("a")).graph).match(trace(Holds("b")).graph))

    assert_same(scenario)


def test_named_nodes_of_exported_graphs():
    class Pattern(torch.nn.Module):
        def forward(self, x, w):
            conv = F.conv2d(x, w)
            relu = F.relu(conv)
            return relu, {"conv": conv, "relu": relu}

    class Target(torch.nn.Module):
        def forward(self, x, w):
            return F.relu(F.conv2d(F.relu(F.conv2d(x, w)), w))

    inputs = (torch.ones(1, 3, 3, 3), torch.ones(3, 3, 1, 1))

    def scenario(side):
        matcher = side("passes.utils.matcher_with_name_node_map_utils").SubgraphMatcherWithNameNodeMap
        target = side.adopt(torch.export.export(Target(), inputs).module())
        pattern = side.adopt(torch.export.export(Pattern(), inputs).module())
        side.report([match.name_node_map for match in matcher(pattern).match(target.graph)])
        side.report(pattern.code)

    assert_same(scenario, at_least=2)


def test_source_partitions():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 3)
            self.second = torch.nn.Linear(3, 5)

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))))

    def scenario(side):
        utils = side("passes.utils.source_matcher_utils")
        captured = []
        torch._dynamo.reset()
        torch.compile(Model(), backend=lambda gm, inputs: captured.append(gm) or gm)(torch.ones(1, 3))
        graphs = [side.adopt(gm).graph for gm in captured]
        program = torch.export.export(Model(), (torch.ones(1, 3),), strict=True)
        graphs.append(side.adopt(program.module()).graph)
        program = torch.export.export(Model(), (torch.ones(1, 3),))
        graphs.append(side.adopt(program.run_decompositions().module()).graph)
        for graph in graphs:
            for wanted in ([torch.nn.Linear, F.relu], ["linear", "relu"], ["torch.nn.modules.linear.Linear"]):
                found = utils.get_source_partitions(graph, wanted)
                side.report({str(source): [described(p) for p in partitions] for source, partitions in found.items()})
                flat = [partition for partitions in found.values() for partition in partitions]
                side.report([[utils.check_subgraphs_connected(a, b) for a in flat] for b in flat])
            side.report(utils.get_source_partitions(graph, [torch.nn.Linear], lambda node: False))

    def described(partition):
        # torch.fx gathers in sets, so the order is not always the same.
        lists = (partition.input_nodes, partition.output_nodes, partition.params)
        return partition.nodes, partition.source, [sorted(node.name for node in nodes) for nodes in lists]

    assert_same(scenario, at_least=15)
