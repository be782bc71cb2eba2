"""Conversion to and from torch.fx: nothing is lost either way."""

import copy

import pytest
import torch
import torch.fx

import fxlib
from fxlib.interop import from_torch_fx, to_torch_fx


def assert_equal(one, two):
    assert one.code == two.code
    assert type(one).__name__ == type(two).__name__
    assert list(one.state_dict()) == list(two.state_dict())
    for a, b in zip(one.graph.nodes, two.graph.nodes, strict=True):
        assert (a.name, a.op, str(a.args), str(a.kwargs), a.type) == (b.name, b.op, str(b.args), str(b.kwargs), b.type)
        assert a.target is b.target or a.target == b.target
        assert list(a.meta) == list(b.meta)
        assert [user.name for user in a.users] == [user.name for user in b.users]


def round_trip(foreign, *inputs):
    before = foreign.code
    ours = from_torch_fx(foreign)
    assert type(ours).__mro__[-3] is not torch.fx.GraphModule and isinstance(ours, fxlib.GraphModule)
    ours.graph.lint()
    assert_equal(foreign, ours)
    back = to_torch_fx(ours)
    assert isinstance(back, torch.fx.GraphModule)
    back.graph.lint()
    assert_equal(foreign, back)
    assert_equal(ours, from_torch_fx(back))
    assert foreign.code == before
    if inputs:
        expected = copy.deepcopy(foreign)(*copy.deepcopy(inputs))
        for converted in (ours, back):
            torch.testing.assert_close(copy.deepcopy(converted)(*copy.deepcopy(inputs)), expected)
    return ours


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
        self.register_buffer("b", torch.ones(2))

    def forward(self, x, d):
        a = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (self.l(x),))
        return {"a": a, "b": d["q"] + self.b}


INPUTS = (torch.ones(3, 2), {"q": torch.ones(2)})


@pytest.fixture(scope="module")
def program():
    return torch.export.export(Branches(), INPUTS, dynamic_shapes=({0: torch.export.Dim("n")}, {"q": None}))


def test_exported(program):
    ours = round_trip(program.module(), *INPUTS)
    assert isinstance(ours.true_graph_0, fxlib.GraphModule)
    round_trip(program.graph_module)


def test_decomposed(program):
    round_trip(program.run_decompositions().module(), *INPUTS)


def test_make_fx_with_symbolic_sizes():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        return torch.relu(x).view(x.shape[0] * 2, -1)

    ours = round_trip(make_fx(function, tracing_mode="symbolic")(torch.ones(4, 2)), torch.ones(4, 2))
    assert any(isinstance(node.meta.get("val"), torch.SymInt) for node in ours.graph.nodes)


def test_backward_graph():
    from torch.fx.experimental.proxy_tensor import make_fx

    weights = torch.ones(2, 2, requires_grad=True)
    traced = make_fx(lambda p, x: torch.autograd.grad((x @ p).sum(), p))(weights, torch.ones(2, 2))
    round_trip(traced, weights, torch.ones(2, 2))


def test_dynamo():
    graphs = []
    torch._dynamo.reset()
    torch.compile(Branches(), backend=lambda gm, _: graphs.append(gm) or gm, dynamic=True)(*INPUTS)
    assert len(graphs) == 1
    round_trip(graphs[0])


def test_symbolically_traced():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2))
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x, y: int = 3, *rest, k=None, **more):
            return self.seq(x)[:, 0:1] * self.w + y

    round_trip(torch.fx.symbolic_trace(Model()), torch.ones(2, 2))


def test_nested_inputs():
    def function(a, b):
        return {"z": a["x"] + b[0] * b[1]}

    concrete = {"a": {"x": torch.fx.PH}, "b": [torch.fx.PH, torch.fx.PH]}
    traced = torch.fx.symbolic_trace(function, concrete_args=concrete)
    round_trip(traced, {"x": torch.ones(2)}, [torch.ones(2), torch.ones(2)])


class OneList(torch.fx.graph.CodeGen):
    def gen_fn_def(self, free_vars, maybe_return_annotation, **options):
        return f"def forward(self, inputs){maybe_return_annotation}:\n    {', '.join(free_vars)} = inputs"

    def process_inputs(self, *inputs):
        return inputs[0]


def test_a_code_generator_of_the_users():
    traced = torch.fx.symbolic_trace(lambda a, b: a + b)
    traced.graph.set_codegen(OneList())
    traced.recompile()
    ours = round_trip(traced, [torch.ones(1), torch.ones(1)])
    assert fxlib.Interpreter(ours).run([torch.ones(1), torch.ones(1)]).item() == 2
    assert isinstance(to_torch_fx(ours).graph._codegen, OneList)


def test_from_ours_first():
    traced = fxlib.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    foreign = to_torch_fx(traced)
    assert_equal(traced, foreign)
    assert_equal(traced, from_torch_fx(foreign))
    assert foreign.get_submodule("0") is traced.get_submodule("0")
    assert torch.fx.passes.shape_prop.ShapeProp(foreign).propagate(torch.ones(1, 2)).shape == (1, 2)


def test_other_things_are_refused():
    with pytest.raises(TypeError, match=r"expected a torch\.fx.*Linear"):
        from_torch_fx(torch.nn.Linear(1, 1))
    with pytest.raises(TypeError, match="expected a torch"):
        from_torch_fx(fxlib.symbolic_trace(lambda x: x))
    with pytest.raises(TypeError, match="expected a fxlib"):
        to_torch_fx(torch.fx.symbolic_trace(lambda x: x))
