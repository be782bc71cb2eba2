"""Each setting of the tracer: what it changes in a trace, on both libraries."""

import math

import asserting
import pytest
import torch
import torch.fx
import torch.nn as nn
import torch.nn.functional as F
from tracers import Net, both, names

import fxlib


def scale(x, by):
    return x * by


def test_autowrap_functions():
    result = both(lambda fx: fx.Tracer(autowrap_functions=(scale,)), lambda x: scale(x, 2) + math.floor(x.sum()))
    assert names(result) == ["x", "scale", "sum_1", "floor", "add", "output"]


def test_autowrap_modules():
    assert names(both(lambda fx: fx.Tracer(autowrap_modules=(math, F)), lambda x: F.silu(x)))[1] == "silu"
    both(lambda fx: fx.Tracer(autowrap_modules=()), lambda x: math.floor(x))


@pytest.mark.parametrize("constant", [True, False])
def test_param_shapes_constant(constant):
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            if self.w.shape[0] == 3 and self.w.size() == torch.Size([3, 2]) and self.w.dim() == self.w.ndim == 2:
                return x * self.w.numel() + self.w.nelement() + self.w
            return x

    result = both(lambda fx: fx.Tracer(param_shapes_constant=constant), Sized())
    assert (result[0] == "TraceError") is not constant


def test_param_shapes_constant_of_inner_parameter():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return x * 2 if self.inner.weight.shape[1] == 2 else x

    both(lambda fx: fx.Tracer(param_shapes_constant=True), Outer())


def test_proxy_buffer_attributes():
    def make(fx):
        class Buffers(fx.Tracer):
            proxy_buffer_attributes = True

        return Buffers()

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("ids", torch.arange(8))

        def forward(self, x):
            return x + self.ids[: x.shape[0]] + self.ids

    assert names(both(make, Positions())).count("ids") == 1
    both(lambda fx: fx.Tracer(), Positions())


def test_check_mutable_operations():
    def make(fx):
        class Pure(fx.Tracer):
            check_mutable_operations = True

        return Pure()

    assert both(make, lambda x: torch.relu_(x))[0] == "RuntimeError"
    both(make, lambda x: torch.relu(x))


def test_traced_func_name():
    class Other(nn.Module):
        def encode(self, x):
            return x + 1

        def forward(self, x):
            return self.encode(x) * 2

    def make(fx):
        class Encode(fx.Tracer):
            traced_func_name = "encode"

        return Encode()

    assert names(both(make, Other())) == ["x", "add", "output"]
    assert both(make, Net())[0] == "AssertionError"


def test_trace_asserts():
    class Asserting(fxlib.Tracer):
        trace_asserts = True

    for fn, count in ((asserting.plain_assert, 1), (asserting.with_message, 3), (asserting.several, 2)):
        graph = Asserting().trace(fn)
        checks = [n for n in graph.nodes if getattr(n.target, "__name__", "") == "assert_fn"]
        assert len(checks) == count
        gm = fxlib.GraphModule(nn.Module(), graph)
        inputs = [torch.ones(2)] * sum(n.op == "placeholder" for n in graph.nodes)
        assert gm(*inputs).shape == (2,)
        with pytest.raises(AssertionError, match="Assertion failed"):
            gm(*[-value for value in inputs])
    for fn in (asserting.not_an_assertion, asserting.raises_by_hand):
        with pytest.raises(fxlib.proxy.TraceError):
            Asserting().trace(fn)


def test_record_stack_traces():
    class Stacks(fxlib.Tracer):
        record_stack_traces = True

    graph = Stacks().trace(Net())
    for node in graph.nodes:
        if node.op not in ("placeholder", "output"):
            assert "tracers.py" in node.stack_trace
            assert "forward" in node.stack_trace
            assert "fxlib/" not in node.stack_trace.replace("tests/fxlib/", "")
