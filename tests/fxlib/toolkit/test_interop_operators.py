"""Graphs with higher-order operators and symbolic numbers, from Dynamo, torch.export and make_fx, as ours and back."""

import pytest
import torch
import torch._dynamo
import torch.fx
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention

import fxlib
from fxlib.interop import from_torch_fx, to_torch_fx

pytestmark = pytest.mark.filterwarnings("ignore")


def conditional(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


def loop(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def mapped(x):
    return map_over(lambda row, other: row * other + 1, x, torch.ones(4))


def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


def attention(x):
    q = x.reshape(1, 1, 3, 4)
    return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))


def contexts(x):
    with torch.no_grad():
        y = x * 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return y @ y.T


def sizes(x):
    return x.view(x.shape[0] * 2, -1) + x.shape[0] + x.size(1) // 2


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda a: a.sin().cos(), x, use_reentrant=False)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


def with_gradient(x):
    return Sine.apply(x) + 1


@torch.compiler.nested_compile_region
def region(x):
    return x.sin() + 1


def regions(x):
    return region(region(x))


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


CALLING = [conditional, loop, mapped, scanned, attention, contexts, sizes]
# Their graphs stay torch.fx's, which interprets them.
INTERPRETED = [checkpointed, with_gradient, regions]


def example():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def dynamo_graph(function, x):
    seen = []

    def keep(gm, inputs):
        seen.append((gm, [int(value) if isinstance(value, torch.SymInt) else value for value in inputs]))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=keep, dynamic=True)(x)
    torch._dynamo.reset()
    return seen[0]


def assert_converts(gm, inputs):
    ours = from_torch_fx(gm)
    ours.graph.lint()
    back = to_torch_fx(ours)
    assert ours.code == gm.code == back.code
    assert str(ours.graph) == str(gm.graph) == str(back.graph)
    for found, expected in zip(ours.modules(), gm.modules(), strict=True):
        if isinstance(expected, torch.fx.GraphModule):
            assert found.code == expected.code
    wanted = gm(*inputs)
    for run in (ours, fxlib.Interpreter(ours).run, back):
        torch.testing.assert_close(run(*inputs), wanted, rtol=0, atol=0)
    return ours


def graph_modules(ours):
    return [type(m).__mro__[1] for m in list(ours.modules())[1:] if hasattr(m, "graph")]


@pytest.mark.parametrize("function", CALLING)
def test_from_dynamo(function):
    gm, inputs = dynamo_graph(function, example())
    assert set(graph_modules(assert_converts(gm, inputs))) <= {fxlib.GraphModule}


@pytest.mark.parametrize("function", INTERPRETED)
def test_graphs_that_torch_interprets_stay_its(function):
    gm, inputs = dynamo_graph(function, example().requires_grad_())
    assert set(graph_modules(assert_converts(gm, inputs))) == {torch.fx.GraphModule}


@pytest.mark.parametrize("function", [conditional, mapped, contexts, sizes])
def test_from_export(function):
    x = example()
    dim = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(Calling(function), (x,), dynamic_shapes=({0: dim},))
    assert set(graph_modules(assert_converts(program.module(), (x,)))) <= {fxlib.GraphModule}


@pytest.mark.parametrize("function", [conditional, loop, attention, sizes])
def test_from_make_fx(function):
    gm = make_fx(function, tracing_mode="symbolic")(example())
    assert set(graph_modules(assert_converts(gm, (example(),)))) <= {fxlib.GraphModule}


def test_symbolic_numbers_stay_torchs():
    gm, _ = dynamo_graph(sizes, example())
    ours = from_torch_fx(gm)
    pairs = [
        (theirs.meta["example_value"], node.meta["example_value"])
        for theirs, node in zip(gm.graph.nodes, ours.graph.nodes, strict=True)
        if isinstance(theirs.meta.get("example_value"), torch.SymInt)
    ]
    assert len(pairs) >= 2
    assert all(one is other for one, other in pairs)


def test_a_changed_body_runs():
    gm, inputs = dynamo_graph(conditional, example().abs())
    ours = from_torch_fx(gm)
    body = next(m for m in list(ours.modules())[1:] if isinstance(m, fxlib.GraphModule) and "sin" in m.code)
    (sine,) = (n for n in body.graph.nodes if n.target == "sin")
    sine.target = "tan"
    body.recompile()
    torch.testing.assert_close(ours(*inputs)[0], example().abs().tan() + 1)
    torch.testing.assert_close(to_torch_fx(ours)(*inputs)[0], example().abs().tan() + 1)
    torch.testing.assert_close(gm(*inputs)[0], example().abs().sin() + 1)
