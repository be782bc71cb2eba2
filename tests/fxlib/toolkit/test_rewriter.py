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


def repeated(x):
    for _ in range(4):
        x = torch.sigmoid(x)
    return x


def diamonds(x, w1, w2):
    for _ in range(5):
        a = x - w1
        b = torch.sigmoid(a)
        c = torch.relu(a)
        x = b + c * w2
    return x


def keywords(x, w, b):
    return F.linear(x, w, bias=b) * x


def lists(x):
    return torch.ops.aten._reshape_alias_copy.default(x, [1, 2], [3, 4])


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
    "one after another": (repeated, lambda x: torch.sigmoid(x), lambda x: torch.exp(x)),
    "overlapping": (repeated, lambda x: torch.sigmoid(torch.sigmoid(x)), lambda x: torch.neg(x)),
    "removed": (repeated, lambda x: torch.sigmoid(torch.sigmoid(x)), lambda x: x),
    "literal differs": (one, lambda x: torch.sigmoid(x) + 2, lambda x: x * 5),
    "parameter stands for a literal": (one, lambda x, y: torch.sigmoid(x) + y, lambda x, y: x * y),
    "inner value is used and returned": (
        diamonds,
        three_outputs,
        lambda a, b: (torch.abs(b), torch.abs(b), torch.exp(a)),
    ),
    "several anchors": (diamonds, two_outputs, lambda a, b: (torch.abs(b), torch.exp(a))),
    "shared input twice": (diamonds, lambda a, b, c: torch.sigmoid(a - b) + torch.relu(a - b) * c, lambda a, b, c: a),
    "keyword arguments": (keywords, lambda a, b, c: F.linear(a, b, bias=c), lambda a, b, c: a @ b + c),
    "positional instead of keyword": (keywords, lambda a, b, c: F.linear(a, b, c), lambda a, b, c: a @ b + c),
    "list argument": (
        lists,
        lambda x, a, b: torch.ops.aten._reshape_alias_copy.default(x, a, b),
        lambda x, a, b: torch.ops.aten._reshape_alias_copy.default(x, b, a),
    ),
    "items of a list": (
        lists,
        lambda x, a, b, c: torch.ops.aten._reshape_alias_copy.default(x, [a, b], c),
        lambda x, a, b, c: x + a + b,
    ),
    "defaults of an overload": (overloads, lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda x, y: x * y),
    "nothing found": (one, lambda x: torch.cos(x), lambda x: x),
    "no function": (one, 3, 4),
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
        {"node_name_match": "sigmoid"},
    ],
    ids=["ignore_literals", "no match passes", "two filters", "node_name_match"],
)
def test_filters(settings):
    def scenario(side):
        for function, pattern in ((one, lambda x: torch.sigmoid(x) + 2), (repeated, lambda x: torch.sigmoid(x))):
            gm = side().symbolic_trace(function)
            rewriter = side("subgraph_rewriter")
            side.report(rewriter.replace_pattern_with_filters(gm, pattern, lambda x: x * 5, **settings), gm.code)

    assert_same(scenario, at_least=2)


def test_callback_makes_the_replacement():
    def scenario(side):
        def callback(match, graph, pattern):
            number = sum(node.target is torch.mul for node in graph.nodes)
            return side().symbolic_trace(lambda x: torch.mul(x, number)).graph

        gm = side().symbolic_trace(repeated)
        rewriter = side("subgraph_rewriter")
        found = rewriter.replace_pattern_with_filters(gm, lambda x: torch.sigmoid(x), replacement_callback=callback)
        side.report(found, gm.code)
        side.attempt(lambda: rewriter.replace_pattern_with_filters(gm, lambda x: torch.sigmoid(x)))

    assert_same(scenario, at_least=2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
        self.submod = torch.nn.ReLU()
        self.sigmoid = torch.nn.Sigmoid()
        self.w = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return torch.relu(self.submod(self.sigmoid(self.l(x) * self.w)))


class Pattern(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.submod = torch.nn.ReLU()
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        return self.submod(self.sigmoid(x))


class Replacement(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tanh = torch.nn.Tanh()
        self.submod = torch.nn.ReLU()
        self.c = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return self.submod(self.tanh(x)) * self.c


class PatternOfParameter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w2 = torch.nn.Parameter(torch.ones(5))

    def forward(self, x):
        return x * self.w2


def test_modules_and_parameters_come_with_the_replacement():
    def scenario(side):
        rewriter = side("subgraph_rewriter")
        gm = side().symbolic_trace(Model())
        side.report(rewriter.replace_pattern(gm, Pattern(), Replacement()), gm.code, list(gm.state_dict()), gm)
        side.report(gm(torch.ones(1, 2)).tolist())
        gm = side().symbolic_trace(Model())
        side.report(rewriter.replace_pattern(gm, PatternOfParameter(), lambda x: x + 1), gm.code, list(gm.state_dict()))

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
