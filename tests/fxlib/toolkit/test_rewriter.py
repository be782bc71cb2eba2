"""replace_pattern and its relatives, against torch.fx."""

import time

import pytest
import torch
import torch.nn.functional as F

import fxlib
from fxlib.subgraph_rewriter import replace_pattern

from .both import assert_same


def one(x):
    return torch.sigmoid(x) + 1


def unused_result(x):
    torch.relu(x)
    torch.neg(x)
    return torch.sigmoid(x)


def two_chains(x):
    a = torch.relu(x)
    b = torch.neg(x)
    c = torch.exp(a)
    d = torch.abs(b)
    return c, d


def halved_often(x):
    for _ in range(4):
        x = x / 2
    return x


def diamonds(x, w1, w2):
    for _ in range(5):
        a = x - w1
        b = torch.sigmoid(a)
        c = torch.relu(a)
        x = b + c * w2
    return x


def keywords(x, steepness):
    return F.softplus(x, beta=steepness) - x


def lists(x):
    return torch.ops.aten.roll.default(x, [1, 2], [0, -1])


def overloads(x):
    add = torch.ops.aten.add.Tensor
    return add(x, x, alpha=1) + add(x, 3) + add(x, 4, alpha=2)


def three_outputs(a1, a2):
    a = a1 - a2
    return torch.sigmoid(a), torch.relu(a), a


def two_outputs(a1, a2):
    a = a1 - a2
    return torch.sigmoid(a), torch.relu(a)


CASES = {
    "result not used": (unused_result, lambda a: torch.neg(a), lambda a: torch.abs(a)),
    "two results": (two_chains, lambda x: (torch.relu(x), torch.neg(x)), lambda x: (torch.tanh(x), torch.cos(x))),
    "more parameters": (two_chains, lambda x: torch.relu(x), lambda x, y: torch.tanh(x)),
    "more results": (two_chains, lambda x: torch.relu(x), lambda x: (torch.tanh(x), x)),
    "one after another": (halved_often, lambda x: x / 2, lambda x: x * 0.5),
    "overlapping": (halved_often, lambda x: x / 2 / 2, lambda x: torch.ldexp(x, -2)),
    "three of four": (halved_often, lambda x: x / 2 / 2 / 2, lambda x: x / 8),
    "removed": (halved_often, lambda x: x / 2 / 2, lambda x: x),
    "result twice": (halved_often, lambda x: [x / 2] * 2, lambda x: (x * 0.5, x * 0.25)),
    "literal differs": (one, lambda x: torch.sigmoid(x) + 2, lambda x: x * 5),
    "parameter stands for a literal": (one, lambda x, y: torch.sigmoid(x) + y, lambda x, y: x * y),
    "inner value is used and returned": (
        diamonds,
        three_outputs,
        lambda a, b: (torch.abs(b), torch.abs(b), torch.exp(a)),
    ),
    "several anchors": (diamonds, two_outputs, lambda a, b: (torch.abs(b), torch.exp(a))),
    "shared input twice": (diamonds, lambda a, b, c: torch.sigmoid(a - b) + torch.relu(a - b) * c, lambda a, b, c: a),
    "keyword arguments": (keywords, lambda a, b: F.softplus(a, beta=b), lambda a, b: (a * b).exp().log1p() / b),
    "positional instead of keyword": (keywords, lambda a, b: F.softplus(a, b), lambda a, b: a * b),
    "list argument": (
        lists,
        lambda x, shifts, dims: torch.ops.aten.roll.default(x, shifts, dims),
        lambda x, shifts, dims: torch.ops.aten.roll.default(x, dims, shifts),
    ),
    "items of a list": (
        lists,
        lambda x, first, second, dims: torch.ops.aten.roll.default(x, [first, second], dims),
        lambda x, first, second, dims: x + first * second,
    ),
    "defaults of an overload": (overloads, lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda x, y: x * y),
    "nothing found": (one, lambda x: torch.cos(x), lambda x: x),
}


@pytest.mark.parametrize("name", CASES)
def test_replace_pattern(name):
    function, pattern, replacement = CASES[name]

    def scenario(side):
        gm = side().symbolic_trace(function)
        side.attempt(lambda: side("subgraph_rewriter").replace_pattern(gm, pattern, replacement))
        gm.graph.lint()
        side.report(gm.code)

    assert_same(scenario, at_least=2)


@pytest.mark.parametrize(
    "settings",
    [
        {"ignore_literals": True},
        {"match_filters": [lambda match, graph, pattern: False]},
        {"match_filters": [lambda match, graph, pattern: True, lambda match, *_: len(match.nodes_map) == 2]},
        {"node_name_match": "truediv"},
    ],
    ids=["ignore_literals", "no match passes", "two filters", "node_name_match"],
)
def test_filters(settings):
    def scenario(side):
        for function, pattern in ((one, lambda x: torch.sigmoid(x) + 2), (halved_often, lambda x: x / 2)):
            gm = side().symbolic_trace(function)
            rewriter = side("subgraph_rewriter")
            side.report(rewriter.replace_pattern_with_filters(gm, pattern, lambda x: x * 5, **settings), gm.code)

    assert_same(scenario, at_least=2)


def test_callback_makes_the_replacement():
    def scenario(side):
        def callback(match, graph, pattern):
            number = sum(node.target is torch.mul for node in graph.nodes)
            return side().symbolic_trace(lambda x: torch.mul(x, number)).graph

        gm = side().symbolic_trace(halved_often)
        rewriter = side("subgraph_rewriter")
        found = rewriter.replace_pattern_with_filters(gm, lambda x: x / 2, replacement_callback=callback)
        side.report(found, gm.code)
        side.attempt(lambda: rewriter.replace_pattern_with_filters(gm, lambda x: x / 2))

    assert_same(scenario, at_least=2)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(2, 2)
        self.act = torch.nn.GELU()
        self.norm = torch.nn.LayerNorm(2)
        self.offset = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.norm(self.act(self.project(x) - self.offset)).abs()


class ActThenNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = torch.nn.GELU()
        self.norm = torch.nn.LayerNorm(2)

    def forward(self, value):
        return self.norm(self.act(value))


class GainedMish(torch.nn.Module):
    """Has one of the pattern's modules under its name, one of its own, and a parameter."""

    def __init__(self):
        super().__init__()
        self.mish = torch.nn.Mish()
        self.norm = torch.nn.LayerNorm(2)
        self.gain = torch.nn.Parameter(torch.full((2,), 0.5))

    def forward(self, value):
        return self.gain * self.norm(self.mish(value))


class MinusAParameter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.called_otherwise = torch.nn.Parameter(torch.ones(5))

    def forward(self, value):
        return value - self.called_otherwise


def test_modules_and_parameters_come_with_the_replacement():
    def scenario(side):
        rewriter = side("subgraph_rewriter")
        gm = side().symbolic_trace(Encoder())
        side.report(rewriter.replace_pattern(gm, ActThenNorm(), GainedMish()), gm.code, list(gm.state_dict()), gm)
        gm.project.weight.data.copy_(torch.eye(2))
        gm.project.bias.data.zero_()
        side.report(gm(torch.tensor([[1.0, 3.0]])).tolist())
        gm = side().symbolic_trace(Encoder())
        side.report(rewriter.replace_pattern(gm, MinusAParameter(), lambda x: -x), gm.code, list(gm.state_dict()))

    assert_same(scenario, at_least=3)


def test_nested_parameter_of_a_replacement():
    class Nested(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Module()
            self.inner.w = torch.nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x):
            return x * self.inner.w

    gm = fxlib.symbolic_trace(one)
    assert len(replace_pattern(gm, lambda x: torch.sigmoid(x), Nested())) == 1
    assert gm(torch.ones(2)).tolist() == [4.0, 4.0]


def test_missing_attribute_is_named():
    class Reads(torch.nn.Module):
        def forward(self, x):
            return x

    replacement = fxlib.symbolic_trace(Reads())
    with replacement.graph.inserting_before(replacement.graph.output_node()):
        used = replacement.graph.create_node("get_attr", "nowhere")
    replacement.graph.output_node().args = (used,)
    gm = fxlib.symbolic_trace(one)
    with pytest.raises((RuntimeError, AttributeError), match="nowhere"):
        replace_pattern(gm, lambda x: torch.sigmoid(x), replacement)


def chain(length):
    graph = fxlib.Graph()
    x = graph.placeholder("x")
    w = graph.placeholder("w")
    for _ in range(length):
        a = graph.call_function(torch.sub, (x, w))
        halves = [graph.call_function(function, (a,)) for function in (torch.sigmoid, torch.relu)]
        x = graph.call_function(torch.mul, tuple(halves))
    graph.output(x)
    return fxlib.GraphModule({}, graph)


def two_results_of_sub(a1, a2):
    a = torch.sub(a1, a2)
    return torch.sigmoid(a), torch.relu(a)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (lambda x, w: torch.sub(x, w), lambda x, w: torch.add(x, w)),
        (two_results_of_sub, lambda a, b: (torch.abs(b), torch.exp(a))),
    ],
)
def test_time_grows_with_the_graph_not_with_its_square(pattern, replacement):
    def seconds(length):
        best = float("inf")
        for _ in range(3):
            gm = chain(length)
            start = time.process_time()
            assert len(replace_pattern(gm, pattern, replacement)) == length
            best = min(best, time.process_time() - start)
        return best

    # Four times the matches: about four times as long; sixteen times were it quadratic.
    assert seconds(1600) < 9 * seconds(400)
