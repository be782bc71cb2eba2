"""Modules of torch.fx, as torch.export gives them, in the hands of our tools."""

import operator

import pytest
import torch
import torch.fx

import fxlib
import fxlib.subgraph_rewriter
from fxlib.passes.infra.partitioner import CapabilityBasedPartitioner
from fxlib.passes.operator_support import OperatorSupport
from fxlib.passes.tools_common import legalize_graph, stable_topological_sort


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x)) + x


X = torch.ones(2, 3)


def exported():
    return torch.export.export(Model(), (X,)).module()


def traced():
    return torch.fx.symbolic_trace(Model())


both = pytest.mark.parametrize("make", [exported, traced])


@both
@pytest.mark.parametrize("sort", [legalize_graph, stable_topological_sort])
def test_sorted_in_place(make, sort):
    gm = make()
    wanted = gm(X)
    relu, add = [n for n in gm.graph.nodes if n.op == "call_function"][-2:]
    if add.op == "call_function" and relu in add.all_input_nodes:
        add.append(relu)  # out of order
    with pytest.raises(RuntimeError):
        gm.graph.lint()
    assert sort(gm) is gm
    gm.graph.lint()
    assert isinstance(gm.graph, torch.fx.Graph)
    torch.testing.assert_close(gm(X), wanted)


@both
def test_transformed(make):
    class Doubled(fxlib.Transformer):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            return result * 2 if target in (operator.add, torch.ops.aten.add.Tensor) else result

    gm = make()
    doubled = Doubled(gm).transform()
    assert isinstance(doubled, fxlib.GraphModule)
    torch.testing.assert_close(doubled(X), torch.utils._pytree.tree_map(lambda value: value * 2, gm(X)))


@both
def test_partitioned(make):
    class Calls(OperatorSupport):
        def is_node_supported(self, submodules, node):
            return node.op.startswith("call_") and "guard" not in str(node.target)

    gm = make()
    fused = CapabilityBasedPartitioner(gm, Calls(), allows_single_node_partition=True).partition_and_fuse()
    assert isinstance(fused, fxlib.GraphModule)
    assert isinstance(fused.fused_0, fxlib.GraphModule)
    torch.testing.assert_close(fused(X), gm(X))


def test_patterns_are_replaced_in_place():
    gm = exported()
    (found,) = fxlib.replace_pattern(
        gm, lambda x: torch.ops.aten.relu.default(x), lambda x: torch.ops.aten.neg.default(x)
    )
    assert found.anchor.target is torch.ops.aten.relu.default
    assert isinstance(gm, torch.fx.GraphModule) and isinstance(gm.graph, torch.fx.Graph)
    gm.graph.lint()
    linear = torch.nn.functional.linear(X, gm.linear.weight, gm.linear.bias)
    torch.testing.assert_close(gm(X), X - linear)
    assert "relu" not in gm.code and "neg" in gm.code


def test_a_replacement_brings_its_modules():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.full((3,), 2.0))
            self.act = torch.nn.Sigmoid()

        def forward(self, x):
            return self.act(x) * self.scale

    gm = traced()
    fxlib.replace_pattern(gm, lambda x: torch.relu(x), Scaled())
    assert set(dict(gm.named_parameters())) == {"linear.weight", "linear.bias", "scale"}
    torch.testing.assert_close(gm(X), torch.sigmoid(gm.linear(X)) * 2 + X)


def test_filters_see_graphs_and_patterns_may_be_of_torch_fx():
    gm = traced()
    pattern = torch.fx.symbolic_trace(lambda x, y: x + y)
    rewriter = fxlib.subgraph_rewriter
    refused = rewriter.replace_pattern_with_filters(gm, pattern, pattern, match_filters=[lambda *given: False])
    assert refused == []
    replacement = torch.fx.symbolic_trace(lambda x, y: x - y)
    (done,) = rewriter.replace_pattern_with_filters(gm, pattern.graph, replacement.graph)
    assert [node.target for node in done.replacements] == [operator.sub]
    torch.testing.assert_close(gm(X), torch.relu(gm.linear(X)) - X)
