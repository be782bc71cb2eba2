"""Recording of ATen operators, symbolic sizes, and the pass that merges equal ones."""

import inspect

import pytest
import torch
import torch.fx.experimental.proxy_tensor as theirs

import fxlib
from fxlib.compat import proxy_tensor, symbolic_shapes
from fxlib.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops

from .both import assert_same


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode):
    def scenario(side):
        def function(x, y):
            return {"a": x.view(x.shape[0], -1).softmax(-1) @ y, "b": x.shape[0]}

        gm = side("experimental.proxy_tensor").make_fx(function, tracing_mode=mode)(
            torch.rand(3, 2, 2), torch.rand(4, 5)
        )
        side.report(isinstance(gm, side().GraphModule))
        side.report(gm.code)
        side.report([(node.name, tuple(node.meta["val"].shape)) for node in gm.graph.nodes
                     if isinstance(node.meta.get("val"), torch.Tensor)])  # fmt: skip
        side.report(gm(torch.ones(3, 2, 2), torch.ones(4, 5))["a"])

    assert_same(scenario, at_least=4)


def test_signatures_and_the_other_names_are_torchs():
    for name in ("make_fx", "get_isolated_graphmodule"):
        assert inspect.signature(getattr(proxy_tensor, name)) == inspect.signature(getattr(theirs, name))
    for name in theirs.__all__:
        assert hasattr(proxy_tensor, name), name
    assert proxy_tensor.get_proxy_mode is theirs.get_proxy_mode
    assert symbolic_shapes.ShapeEnv is torch.fx.experimental.symbolic_shapes.ShapeEnv
    assert "make_fx" in dir(proxy_tensor) and "ShapeEnv" in dir(symbolic_shapes)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        proxy_tensor.nothing_of_that_name  # noqa: B018


def repeated(x):
    return x.cos() + x.cos(), torch.cat([x, x]) + torch.cat([x, x]), x.sum(0) + x.sum(1), x.add(2) + x.add(2.0)


def test_equal_operators_are_merged_as_by_torch_fx():
    def scenario(side):
        gm = side("experimental.proxy_tensor").make_fx(repeated)(torch.rand(3, 3))
        cse = side("passes.dialect.common.cse_pass")
        result = cse.CSEPass()(gm)
        side.report(result.modified, result.graph_module is gm)
        side.report(len(result.graph_module.graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default)))
        side.report(len(result.graph_module.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)))
        side.report(cse.CSEPass()(result.graph_module).modified)
        banned = cse.CSEPass(banned_ops={torch.ops.aten.cos})(gm).graph_module
        side.report(len(banned.graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default)))
        side.report(sorted(map(str, cse.get_CSE_banned_ops())))

    assert_same(scenario, at_least=6)


def test_values_that_differ_are_not_merged():
    def function(x):
        zeros, others = torch.zeros(3), torch.zeros(3)
        return zeros.add_(1) + others, torch.rand_like(x), torch.rand_like(x), x.add_(1) * 2

    gm = proxy_tensor.make_fx(function)(torch.ones(3))
    merged = CSEPass(banned_ops=get_CSE_banned_ops())(gm).graph_module
    total, one, two, last = merged(torch.ones(3))
    assert total.tolist() == [1, 1, 1] and last.tolist() == [4, 4, 4]
    assert not torch.equal(one, two)


def test_a_module_of_torch_fx_is_taken():
    result = CSEPass()(theirs.make_fx(repeated)(torch.rand(3, 3)))
    assert result.modified and isinstance(result.graph_module, fxlib.GraphModule)
