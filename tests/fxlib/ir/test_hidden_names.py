"""Parameters with the names of globals and built-in functions that generated code needs."""

import math
import pickle

import pytest
import torch
import torch.fx

import fxlib

X = torch.arange(1.0, 5.0)


def device(x, device=None):
    return x.to(device=torch.device("cpu")) + 1


def slices(x, slice=None):
    return x[1:3], x[(slice, Ellipsis)]


def infinite(x, inf=3.0, nan=1.0):
    return x.clamp(max=math.inf) + inf, {"inf": -math.inf, "kept": [math.nan, nan]}


@pytest.mark.parametrize("function", [device, slices, infinite])
def test_globals_are_written_in_full(function):
    traced = fxlib.symbolic_trace(function)
    for graph_module in (traced, pickle.loads(pickle.dumps(traced))):
        assert repr(graph_module(X)) == repr(function(X))


def test_in_the_arguments_of_a_tree():
    def function(xs, device="cpu"):
        return xs[0].to(torch.device("cpu")) + xs[1]

    traced = fxlib.symbolic_trace(function, concrete_args={"xs": [fxlib.PH, fxlib.PH], "device": "cpu"})
    assert torch.equal(traced([X, X], "cpu"), X + X)


def test_other_code_is_that_of_torch_fx():
    def function(x, other=math.inf):
        return x.to(torch.device("cpu")).clamp(max=math.inf)[0:2] + other

    assert fxlib.symbolic_trace(function).code == torch.fx.symbolic_trace(function).code
