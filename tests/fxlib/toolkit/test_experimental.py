"""Normalizers and splitting by tags do what those of torch.fx do."""

import importlib
import operator
import pickle

import pytest
import torch
import torch.fx as torch_fx
from torch import nn

import fxlib
import fxlib.passes.utils.matcher_utils

from .both import assert_same


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.third = nn.Linear(6, 3)
        self.nested = nn.Sequential(nn.Linear(3, 3))
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("shift", torch.ones(3))

    def forward(self, a, b):
        left = self.first(a) + self.scale
        right = self.second(b) * self.scale
        both = torch.cat([left, right], 1)
        return self.third(both), self.nested(left) + self.shift, left


@pytest.mark.parametrize("return_tuple", [False, True])
@pytest.mark.parametrize("tags", [["p", "q", "r"], ["q", "p", "r"], ["p", "q", "r", "unused"]])
def test_split_by_tags(tags, return_tuple):
    model = Block()
    inputs = torch.randn(2, 3), torch.randn(2, 3)

    def scenario(side):
        gm = side().symbolic_trace(model)
        for node in gm.graph.nodes:
            if node.op in ("call_module", "call_function"):
                node.tag = {"first": "p", "add": "p", "second": "q", "mul": "q"}.get(node.name, "r")
        split, moved = side("passes.split_utils").split_by_tags(gm, tags, True, return_tuple)
        side.report(split.graph, split.code, moved)
        for name, part in split.named_children():
            side.report(name, part.graph, part.code, sorted(dict(part.named_parameters())), list(part.buffers()))
            assert all(any(p is q for q in model.parameters()) for p in part.parameters())
        if "unused" not in tags:
            side.report(all(torch.equal(x, y) for x, y in zip(split(*inputs), model(*inputs), strict=True)))

    assert_same(scenario)


def test_split_by_tags_refuses():
    def scenario(side):
        split = side("passes.split_utils").split_by_tags
        for choose in (lambda n: None, lambda n: "absent", lambda n: "q" if n.name == "first" else "p"):
            gm = side().symbolic_trace(Block())
            for node in gm.graph.nodes:
                if (tag := choose(node)) is not None:
                    node.tag = tag
            side.attempt(lambda gm=gm: split(gm, ["p", "q"]))

    assert_same(scenario, at_least=3)


def test_split_of_an_exported_module():
    gm = torch.export.export(Block(), (torch.randn(2, 3), torch.randn(2, 3))).module()
    inputs = torch.randn(2, 3), torch.randn(2, 3)
    calls = [n for n in gm.graph.nodes if n.op in ("call_function", "call_module")]
    for index, node in enumerate(calls):
        node.tag = "front" if index < 2 else "back"
    from fxlib.passes.split_utils import split_by_tags

    split = split_by_tags(gm, ["front", "back"])
    assert isinstance(split, fxlib.GraphModule)
    assert [name for name, _ in split.named_children()][:2] == ["front", "back"]
    for ours, theirs in zip(split(*inputs), gm(*inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_attributes_by_path():
    def scenario(side):
        utils = side("passes.split_utils")
        block = Block()
        for path in ("nested.0.weight", "nested.0.absent", "absent.weight", "third"):
            side.attempt(lambda path=path: type(utils.getattr_recursive(block, path)))
        utils.setattr_recursive(block, "nested.0.label", 3)
        side.report(block.nested[0].label)

    assert_same(scenario, at_least=5)


class Spelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, y):
        h = torch.nn.functional.relu(self.linear(x))
        h = torch.cat([h, y]) + torch.mm(x, x).sum(0)
        h = torch.add(h, y) - torch.floor_divide(h, 2) * torch.eq(x, y)
        return h + operator.mul(x, 3) + torch.add(input=x, other=y)


@pytest.mark.parametrize("only_keywords", [True, False])
@pytest.mark.filterwarnings("ignore:We were not able")
def test_normalized(only_keywords):
    def scenario(side):
        normalize = side("experimental.normalize")
        gm = side().symbolic_trace(Spelled())
        made = normalize.NormalizeOperators(gm).transform()
        side.report([(node.op, node.target, node.args) for node in made.graph.nodes])

        class Functional(nn.Module):
            def forward(self, x):
                return torch.nn.functional.gelu(torch.cat([x, x]) + 1).sum(0)

        gm = side().symbolic_trace(Functional())
        side.report(normalize.NormalizeArgs(gm, only_keywords).transform().code)

    assert_same(scenario, at_least=2)


def test_an_operator_with_a_factor_is_not_spelled_as_python_s():
    from fxlib.experimental.normalize import NormalizeOperators

    gm = fxlib.symbolic_trace(lambda x, y: torch.sub(x, y, alpha=2))
    x, y = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(NormalizeOperators(gm).transform()(x, y), x - 2 * y)


def test_graphs_of_torch_fx_are_taken():
    theirs = torch_fx.symbolic_trace(Block())
    inputs = torch.randn(2, 3), torch.randn(2, 3)
    ours = fxlib.GraphModule(theirs, theirs.graph)
    assert ours.code == theirs.code
    copied = fxlib.Graph()
    copied.output(copied.graph_copy(theirs.graph, {}))
    copied.lint()
    for one, other, third in zip(ours(*inputs), fxlib.Interpreter(theirs).run(*inputs), theirs(*inputs), strict=True):
        assert torch.equal(one, other) and torch.equal(one, third)
    matcher = fxlib.passes.utils.matcher_utils.SubgraphMatcher
    pattern = fxlib.symbolic_trace(lambda x, y: x + y).graph
    assert len(matcher(pattern, match_output=False).match(theirs.graph)) == 2


def test_specialized_none_by_the_path_of_its_function(tmp_path, monkeypatch):
    def choice(x, y=None):
        return x + 1

    gm = fxlib.symbolic_trace(choice, concrete_args={"y": None})
    assert "= fxlib._symbolic_trace._assert_is_none(y_1," in gm.code
    loaded = pickle.loads(pickle.dumps(gm))
    assert loaded.code == gm.code and loaded(1, None) == 2
    with pytest.raises(AssertionError, match="specialized to have value None"):
        loaded(1, 2)
    gm.to_folder(tmp_path / "specialized", "Choice")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("specialized").Choice()(1, None) == 2


@pytest.mark.parametrize("library", [torch_fx, fxlib])
def test_normalized_nodes_keep_their_metadata_and_types(library):
    normalize = importlib.import_module(f"{library.__name__}.experimental.normalize")
    traced = library.symbolic_trace(lambda x: torch.add(x, 3).relu())
    for node in traced.graph.nodes:
        node.meta["of"] = node.op
        node.type = {"call_function": torch.Tensor, "output": int}.get(node.op)
    normalized = normalize.NormalizeArgs(traced).transform()
    assert [(n.op, n.meta["of"]) for n in normalized.graph.nodes] == [(n.op, n.op) for n in traced.graph.nodes]
    assert [n.type for n in normalized.graph.nodes][1:3] == [torch.Tensor, None]
