"""Concrete arguments with collections, where torch.fx's code is no Python or cannot be called."""

import pytest
import torch
import torch.fx
from torch import nn

import fxlib


class Scaled(nn.Module):
    def forward(this, features, mask=None, scale: float = 2.0, *, power=1):
        low, high = features
        out = (low + high) ** power * scale
        return out if mask is None else out * mask


class Renamed(nn.Module):
    def forward(this, features):
        return features[0] + features[1]


FEATURES = [torch.ones(2), torch.arange(2.0)]


@pytest.mark.parametrize("kwargs", [{}, {"scale": 3.0}, {"mask": None, "power": 2}])
def test_defaults(kwargs):
    concrete = {"features": [fxlib.PH, fxlib.PH], "mask": None}
    traced = fxlib.symbolic_trace(Scaled(), concrete_args=concrete)
    assert torch.equal(traced(FEATURES, **kwargs), Scaled()(FEATURES, **kwargs))
    with pytest.raises(SyntaxError):
        torch.fx.symbolic_trace(Scaled(), concrete_args={"features": [torch.fx.PH, torch.fx.PH], "mask": None})
    report = fxlib.diagnose(Scaled(), concrete_args=concrete)
    assert not report.traces and report.graph_module is None and report.codes()[-1] == "FX199"


def test_a_method_may_call_its_module_by_another_name():
    traced = fxlib.symbolic_trace(Renamed(), concrete_args={"features": [fxlib.PH, fxlib.PH]})
    assert torch.equal(traced(FEATURES), FEATURES[0] + FEATURES[1])
