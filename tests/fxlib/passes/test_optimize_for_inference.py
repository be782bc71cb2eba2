"""Packed layers: equal results in every form of post-operation, and no change where it would be wrong."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from fxlib.passes.dropout import remove_dropout
from fxlib.passes.optimize_for_inference import optimize_for_inference, pack_layers
from fxlib.passes.packed_layers import PackedConv2d, PackedConv2dInto, PackedLinear


def packed(module, *inputs):
    module.eval()
    with torch.no_grad():
        before = module(*[x.clone() for x in inputs])
        result = optimize_for_inference(fxlib.symbolic_trace(copy.deepcopy(module)), *inputs)
        torch.testing.assert_close(result(*[x.clone() for x in inputs]), before, rtol=1e-5, atol=1e-5)
    return result


def posts(graph_module):
    return [m.post.name for m in graph_module.modules() if isinstance(m, (PackedConv2d, PackedLinear))]


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.ReLU6(), "hardtanh"),
        (nn.Hardtanh(-2, 0.5), "hardtanh"),
        (nn.Tanh(), "tanh"),
        (nn.LeakyReLU(0.3), "leaky_relu"),
        (nn.Hardswish(), "hardswish"),
        (nn.Hardsigmoid(), "hardsigmoid"),
        (nn.SiLU(), "swish"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.GELU(), "gelu"),
        (nn.GELU("tanh"), "gelu"),
        (nn.Softplus(), "none"),
    ],
    ids=str,
)
@pytest.mark.parametrize("layer", [nn.Conv2d(3, 8, 3, 2, 1, groups=1), nn.Linear(6, 7)], ids=lambda m: type(m).__name__)
def test_activations(layer, activation, name):
    result = packed(nn.Sequential(layer, activation), torch.randn(2, 3, 6, 6))
    assert posts(result) == [name]


@pytest.mark.parametrize(
    "call",
    [
        F.relu,
        torch.relu,
        lambda x: x.relu(),
        lambda x: x.relu_(),
        lambda x: F.leaky_relu(x, 0.2),
        lambda x: F.hardtanh(x, -1.0, 2.0),
        lambda x: F.gelu(x, approximate="tanh"),
    ],
)
def test_functional_activations(call):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return call(self.conv(x))

    assert posts(packed(Net(), torch.randn(1, 3, 6, 6))) != ["none"]


@fxlib.wrap
def cleared(x):
    x.zero_()


class Residual(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.a, self.b, self.form = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1), form

    def forward(self, x):
        y = self.a(x)
        if self.form == "two convolutions":
            return F.relu(y + self.b(x))
        if self.form == "itself":
            return F.relu(y + y)
        if self.form == "broadcast":
            return F.relu(y + x.mean((2, 3), keepdim=True))
        if self.form == "into the input":
            x += y
            return F.relu(x) + x
        if self.form == "in place":
            y += x
            return F.relu_(y)
        if self.form == "input changed between":
            x.mul_(2)
            return F.relu(y + x)
        if self.form == "changed before the activation":
            h = x * 2
            y = self.a(h) + x
            h.mul_(0)
            return F.relu(y) + h
        if self.form == "changed by a helper":
            h = x * 2
            y = self.a(h)
            cleared(h)
            return F.relu(y + x) + h
        if self.form == "no activation":
            return y + x
        if self.form == "two readers":
            return F.relu(y + x) + y
        return F.relu(torch.add(y, x, alpha=2))


@pytest.mark.parametrize(
    ("form", "taken"),
    [
        ("two convolutions", True),
        ("in place", True),
        ("no activation", True),
        ("itself", False),
        ("broadcast", False),
        ("into the input", True),
        ("input changed between", False),
        ("changed before the activation", True),
        ("changed by a helper", False),
        ("two readers", False),
        ("scaled", False),
    ],
)
def test_residual_sums(form, taken):
    result = packed(Residual(form), torch.randn(2, 3, 6, 6))
    sums = [n for n in result.graph.nodes if n.op == "call_module" and len(n.args) == 2]
    assert bool(sums) is taken


def test_sum_needs_known_shapes():
    result = pack_layers(fxlib.symbolic_trace(Residual("no activation").eval()))
    assert all(len(n.args) < 2 for n in result.graph.nodes if n.op == "call_module")


def test_packed_module_copies_pickles_moves_and_takes_other_shapes():
    result = packed(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 6, 6))
    with torch.no_grad():
        for x in (torch.randn(1, 3, 9, 9), torch.randn(4, 3, 5, 7), torch.randn(0, 3, 6, 6)):
            expected = result(x)
            for other in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
                torch.testing.assert_close(other(x), expected)
        wide = copy.deepcopy(result).double()
        torch.testing.assert_close(wide(x.double()).float(), expected, rtol=1e-4, atol=1e-4)


def test_input_that_needs_gradients_gets_them():
    result = packed(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 6, 6))
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    result(x).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet1_0"])
def test_models(name):
    import torchvision

    torch.manual_seed(0)
    result = packed(torchvision.models.get_model(name, weights=None), torch.randn(2, 3, 64, 64))
    assert "relu" in posts(result) or "hardtanh" in posts(result)
    assert not any(isinstance(m, (nn.BatchNorm2d, nn.Dropout)) for m in result.modules())


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.same = nn.Dropout(0.5), nn.Identity()

    def forward(self, x):
        return self.same(F.dropout(self.drop(x) + 1, 0.5, self.training)) * 2


def test_dropout_goes_only_where_it_is_off():
    x = torch.randn(4, 4)
    off = remove_dropout(fxlib.symbolic_trace(Drops().eval()))
    assert [n.name for n in off.graph.nodes if n.op.startswith("call")] == ["add", "mul"]
    assert torch.equal(off(x), (x + 1) * 2)
    on = remove_dropout(fxlib.symbolic_trace(Drops().train()))
    assert len([n for n in on.graph.nodes if n.op.startswith("call")]) == 4


def into(graph_module):
    return [m for m in graph_module.modules() if isinstance(m, PackedConv2dInto)]


class Sums(nn.Module):
    """A residual sum whose other operand is dead, or is not, in one way each."""

    def __init__(self, form):
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.form = form

    def forward(self, x):
        y = torch.sigmoid(self.first(x)) * 2.0
        form = self.form
        if form == "dead":
            return F.relu(self.second(F.relu(y)) + y)
        if form == "input of the program":
            return F.relu(self.second(y) + x)
        if form == "read later":
            return F.relu(self.second(F.relu(y)) + y) * y
        if form == "view read later":
            view = y[:, :2]
            return F.relu(self.second(F.relu(y)) + y)[:, :2] * view
        if form == "input of the layer":
            return F.relu(self.second(y) + y)
        if form == "view is input of the layer":
            return F.relu(self.second(y.view(y.shape)) + y)
        if form == "returned":
            return F.relu(self.second(F.relu(y)) + y), y
        if form == "read by a layer that moves":
            z = self.third(y)
            one = F.relu(self.second(F.relu(y)) + y)
            return F.relu(z + torch.tanh(one)), one
        assert form == "chain"
        one = F.relu(self.second(torch.tanh(y)) + y)
        return F.relu(self.third(torch.tanh(one)) + one)


@pytest.mark.parametrize(
    ("form", "sums"),
    [
        ("dead", 1),
        ("input of the program", 0),
        ("read later", 0),
        ("view read later", 0),
        ("input of the layer", 0),
        ("view is input of the layer", 0),
        ("returned", 0),
        ("read by a layer that moves", 1),
        ("chain", 2),
    ],
)
def test_sums_in_place_only_over_what_nobody_reads(form, sums):
    x = torch.randn(2, 4, 8, 8)
    result = packed(Sums(form), x)
    assert len(into(result)) == sums
    other = torch.randn(3, 4, 6, 7)  # other shapes than those of the example
    with torch.no_grad():
        kept = other.clone()
        result(other)
    assert torch.equal(other, kept)


def test_a_broadcast_sum_after_packing_is_still_right():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)

        def forward(self, x, y):
            return F.relu(self.conv(x) + y * 1.0)

    model = Gate().eval()
    result = packed(model, torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4))
    x, y = torch.randn(1, 2, 4, 4), torch.randn(1, 2, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(result(x, y), model(x, y))


def test_packed_copies_are_kept_for_each_number_of_threads():
    layer = PackedConv2d(nn.Conv2d(16, 32, 1))
    before = torch.get_num_threads()
    try:
        with torch.no_grad():
            for threads in (1, 2, 1):
                torch.set_num_threads(threads)
                layer(torch.randn(1, 16, 8, 8))
    finally:
        torch.set_num_threads(before)
    assert len(layer._packed) == 2
