"""Modules that behave differently from their class, and models that write to their own state: every pass and the
lowering agree with eager, in later calls too, and restore the model and the examples."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import fxlib
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.optimize_for_inference import optimize_for_inference
from fxlib.passes.quantize import quantize_dynamic, quantize_static


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.wide, self.narrow = nn.Linear(8, 256), nn.Linear(256, 8)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        return self.narrow(self.wide(self.norm(self.conv(x))))


def forward_of(name, change):
    def patch(net):
        module = getattr(net, name)
        plain = module.forward
        module.forward = lambda *args: change(plain(*args))

    return patch


def inner(net):
    plain = net.conv._conv_forward
    net.conv._conv_forward = lambda x, weight, bias: plain(x, weight * 2, bias)


def pruned(net):
    for name in ("conv", "norm", "wide"):
        prune.random_unstructured(getattr(net, name), "weight", 0.5)
    nn.init.uniform_(net.norm.weight_orig, 1, 2)  # what the hook makes of it is not what the attribute holds


ALTERED = {
    "another forward of the convolution": forward_of("conv", lambda y: y * 2),
    "another forward of the norm": forward_of("norm", lambda y: y * 2),
    "another forward of the linear layer": forward_of("wide", lambda y: y.relu()),
    "another inner function": inner,
    "a hook on the norm": lambda net: net.norm.register_forward_hook(lambda m, args, out: out * 2),
    "a hook before the norm": lambda net: net.norm.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
    "a hook on the linear layer": lambda net: net.wide.register_forward_hook(lambda m, args, out: out * 2),
    "pruning": pruned,
}
USES = {
    "fused": lambda gm, x: fuse_conv_bn(gm),
    "packed": lambda gm, x: optimize_for_inference(gm, x),
    "static": lambda gm, x: quantize_static(gm, [x]),
    "exchange": lambda gm, x: quantize_static(gm, [x], form="qdq"),
    "dynamic": lambda gm, x: quantize_dynamic(gm),
    "lowered": lambda gm, x: fxlib.lower(gm, (x,), min_nodes=1),
}


def agree(found, expected, use):
    error = float((found - expected).norm() / expected.norm())
    assert error < (0.08 if use in ("static", "exchange", "dynamic") else 1e-5), error


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("alter", ALTERED)
def test_what_a_module_does_is_kept(alter, use):
    torch.manual_seed(0)
    net, x = Plain(), torch.randn(2, 3, 8, 8)
    ALTERED[alter](net)
    net.eval()
    with torch.no_grad():
        expected = net(x)
        agree(USES[use](fxlib.symbolic_trace(net), x)(x), expected, use)


class Parameter(Plain):
    def forward(self, x):
        self.conv.bias.data.add_(x.mean() + 0.02)
        return super().forward(x)


class Late(Plain):
    """The value that is written comes out of the engine, after the layer could have been computed."""

    def forward(self, x):
        late = (x * 2 + 1).relu().tanh().mean()
        self.conv.bias.data.add_(late * 0.1)
        return super().forward(x)


class After(Plain):
    def forward(self, x):
        y = super().forward(x)
        self.conv.weight.data.mul_(1.1)
        return y


class Statistics(Plain):
    def forward(self, x):
        self.norm.running_mean.lerp_(x.mean((0, 2, 3)) + 1, 0.5)
        return super().forward(x)


class Quantized(Plain):
    def forward(self, x):
        self.wide.weight.data.mul_(1.2)
        return super().forward(x) + self.narrow.weight.mean()


class Example(Plain):
    def forward(self, x):
        return super().forward(x.mul_(2))


WRITING = [Parameter, Late, After, Statistics, Quantized, Example]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", WRITING)
def test_what_forward_writes_is_seen_by_later_calls(kind, use):
    torch.manual_seed(0)
    net, x = kind().eval(), torch.randn(2, 3, 8, 8)
    eager, example = copy.deepcopy(net), x.clone()
    with torch.no_grad():
        result = USES[use](fxlib.symbolic_trace(net), x)
        assert torch.equal(x, example)
        for name, value in net.state_dict().items():
            assert torch.equal(value, eager.state_dict()[name]), name
        for _ in range(3):
            agree(result(x.clone()), eager(x.clone()), use)


class Untraced(Plain):
    """Writes that no trace records, and an attribute that a trace would leave a proxy in."""

    def forward(self, x):
        self.seen.add_(1)
        self.norm.running_mean += x.mean((0, 2, 3))
        return super().forward(x)


def test_lowering_leaves_the_model_as_it_was():
    net, x = Untraced().eval(), torch.randn(2, 3, 8, 8)
    before = copy.deepcopy(net.state_dict())
    lowered = fxlib.lower(net, (x,))
    assert lowered.report.max_rel_error < 1e-5
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with torch.no_grad():
        result, expected = lowered(x), Plain.forward(net, x)
    assert type(result) is torch.Tensor and result.shape == expected.shape


def test_a_trace_leaves_no_proxy_in_a_module_of_torch():
    net = Untraced().eval()
    fxlib.symbolic_trace(net)
    assert type(net.norm.running_mean) is torch.Tensor


def test_old_weight_norm_is_copied_with_its_computed_weight():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        net = nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 8)).eval()
    x = torch.randn(4, 8)
    result = quantize_static(fxlib.symbolic_trace(net), [x])
    with torch.no_grad():
        agree(result(x), net(x), "static")


class Inside(nn.Module):
    """A layer that is called by itself, and within a module that is a leaf of the trace."""

    def __init__(self):
        super().__init__()
        self.block, self.norm = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), nn.BatchNorm1d(64)

    def forward(self, x):
        y = self.norm(self.block.linear1(x[:, 0]))
        return self.block(x) + y.mean()


@pytest.mark.parametrize("use", ["fused", "packed", "static", "dynamic"])
def test_a_layer_within_a_leaf_keeps_its_weights_there(use):
    net, x = Inside().eval(), torch.randn(2, 3, 32)
    nn.init.uniform_(net.norm.running_var, 0.2, 0.5)
    with torch.no_grad():
        agree(USES[use](fxlib.symbolic_trace(net), x)(x), net(x), use)
