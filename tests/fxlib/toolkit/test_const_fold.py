"""Folding at the first call."""

import operator

import pytest
import torch

import fxlib
from fxlib.experimental.const_fold import split_const_subgraphs

from .both import assert_same


class Constants(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(4, 4))
        self.second = torch.nn.Parameter(torch.randn(4, 4))
        self.linear = torch.nn.Linear(4, 4)
        self.inner = torch.nn.Module()
        self.inner.scale = torch.nn.Buffer(torch.ones(4))

    def forward(self, x, y):
        symmetric = self.first + self.first.permute(1, 0)
        total = torch.sum(self.second, dim=1) * self.inner.scale
        return torch.sigmoid(self.linear(x - symmetric + y + total) + self.linear(self.first)) + self.first


class OneConstant(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))
        self.counts = torch.nn.Buffer(torch.arange(4))

    def forward(self, x, y):
        return {"sum": x + self.weight * 2 + y}


class Pieces(OneConstant):
    def forward(self, x, y):
        upper, lower = (self.weight * 2).split(2)
        return x.narrow(0, 0, 2) + upper, y + lower.sum(0)


class Nothing(OneConstant):
    def forward(self, x, y):
        return x * 2 + y + self.weight


@pytest.mark.parametrize("model", [Constants, OneConstant, Pieces, Nothing])
def test_as_torch_fx_folds(model):
    def scenario(side):
        torch.manual_seed(0)
        module, inputs = model(), (torch.randn(4, 4), torch.randn(4))
        folded = side("experimental.const_fold").split_const_subgraphs(module)
        side.report(folded.graph)
        side.report(folded.code, folded.has_folding_been_run, folded.fx_const_folded_attrs_name)
        side.report(isinstance(folded, side("experimental.const_fold").FoldedGraphModule))
        found, expected = folded(*inputs), module(*inputs)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        side.report(folded.has_folding_been_run)
        state = {name: tuple(value.shape) for name, value in folded.state_dict().items()}
        side.report({name: shape for name, shape in state.items() if "const_subgraph" not in name})
        if folded.const_subgraph_module is not None:
            side.attempt(lambda: folded.const_subgraph_module.graph.find_nodes(op="placeholder"))
            found = folded.const_subgraph_module()
            side.report([tuple(v.shape) for v in found] if isinstance(found, tuple) else tuple(found.shape))

    assert_same(scenario, at_least=5)


def test_what_is_to_stay():
    def scenario(side):
        const_fold = side("experimental.const_fold")
        gm = side().symbolic_trace(Constants())
        stay = const_fold.split_const_subgraphs(gm, skip_folding_node_fn=lambda n: n.target == "permute")
        side.report(stay.graph)
        side.report(const_fold.split_const_subgraphs(gm, skip_folding_node_fn=lambda n: n.op != "get_attr").graph)

    assert_same(scenario, at_least=2)


def test_metadata_stays_with_the_value():
    def scenario(side):
        gm = side().symbolic_trace(OneConstant())
        for index, node in enumerate(gm.graph.nodes):
            node.meta["number"] = index
        folded = side("experimental.const_fold").split_const_subgraphs(gm)
        side.report(
            [(node.op, node.name, node.meta.get("number")) for node in folded.graph.nodes if node.op != "output"]
        )
        side.report([node.meta["number"] for node in gm.graph.nodes])

    assert_same(scenario, at_least=2)


def test_no_name_is_taken_twice():
    def scenario(side):
        holder = torch.nn.Module()
        for name in ("a", "a_1", "b_7", "b_8"):
            setattr(holder, name, 1)
        unique = side("experimental.const_fold").get_unique_attr_name_in_module
        side.report([unique(holder, name) for name in ("a", "z", "b_7", "a_1", "x-y", "3d")])

    assert_same(scenario)


def test_what_changes_between_calls_is_not_folded():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = torch.nn.Buffer(torch.zeros(()))
            self.weight = torch.nn.Buffer(torch.ones(3))

        def forward(self, x):
            return x + self.calls.add_(1) * 2 + torch.bernoulli(self.weight / 2) * 0 + self.weight * 2

    class WithBuffers(fxlib.Tracer):
        proxy_buffer_attributes = True

    counting = Counting()
    folded = split_const_subgraphs(fxlib.GraphModule(counting, WithBuffers().trace(counting)))
    first, second = folded(torch.zeros(3)), folded(torch.zeros(3))
    assert (second - first).tolist() == [2, 2, 2]
    targets = {node.target for node in folded.graph.nodes}
    assert {"add_", torch.bernoulli} <= targets
    assert [n.target for n in folded.const_subgraph_module.graph.nodes if n.op == "call_function"] == [
        operator.truediv,
        operator.mul,
    ]


def test_parameters_may_be_loaded_before_the_first_call():
    folded = split_const_subgraphs(OneConstant())
    with torch.no_grad():
        folded.const_subgraph_module.weight.fill_(3)
    assert folded(torch.zeros(4, 4), torch.zeros(4))["sum"].unique().item() == 6
    with pytest.raises(AssertionError, match="have been computed"):
        folded.run_folding()
