"""Values that torch.fx writes as code with another meaning (FX239), and neighbours that it writes well."""

import contextlib
import math

import pytest
import torch

import fxlib


def negative(x):
    return (-1) ** x


def negative_float(x):
    return (-2.5) ** (x * 2)


def device(x, device=None):
    return x.to(torch.device("cpu"))


def slices(x, slice=None):
    return x[1:3]


def infinite(x, inf=3.0):
    return x.clamp(max=math.inf) + inf


def positive(x, device=None):
    return 2**x + torch.pow(-1, x) + (-x) ** 2


def other_names(x, slice_=None, y=math.inf):
    return x.to(torch.device("cpu"))[1:3] + y


CPU = torch.device("cpu")


def own_default(x, device=CPU, inf=math.inf):
    return x.to(device)


@pytest.mark.parametrize("function", [negative, negative_float, device, slices, infinite])
def test_other_meaning(function):
    assert fxlib.diagnose(function, torch.arange(6)).codes() == ["FX239"]
    x = torch.arange(6)
    with contextlib.suppress(TypeError):
        assert not torch.equal(torch.fx.symbolic_trace(function)(x), function(x))


@pytest.mark.parametrize("function", [positive, other_names, own_default])
def test_the_same_meaning(function):
    assert "FX239" not in fxlib.diagnose(function, torch.arange(6)).codes()
