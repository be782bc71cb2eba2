"""A trace restores the modules, also for published models that cache computed values."""

import copy

import pytest
import timm
import torch
import torch.fx
from torch import nn

import fxlib
from fxlib.proxy import TraceError

IMAGE = torch.randn(1, 3, 224, 224)


@pytest.fixture(scope="module")
def levit():
    """Its attention keeps the bias of each device in a dict."""
    return timm.create_model("levit_128s").eval()


def test_a_model_with_a_cache_is_traced_and_lowered_twice(levit):
    with torch.no_grad():
        expected = levit(IMAGE)
        for _ in range(2):
            torch.testing.assert_close(fxlib.symbolic_trace(levit)(IMAGE), expected)
            report = fxlib.lower(levit, (IMAGE,)).report
            assert report.captured_by == "torch.fx" and report.max_rel_error < 1e-5
        torch.testing.assert_close(levit(IMAGE), expected)
    assert all(
        isinstance(value, torch.Tensor) for value in levit.stages[0].blocks[0].attn.attention_bias_cache.values()
    )


@pytest.mark.parametrize("library", [fxlib, torch.fx], ids=["fxlib", "torch.fx"])
def test_what_another_trace_left_behind_is_named(levit, library):
    """A tracer that is run directly leaves its proxies, as torch.fx does, and the next trace would read them."""
    model = copy.deepcopy(levit)
    library.Tracer().trace(model)
    with pytest.raises(TraceError, match=r"proxies in `stages\.0\.blocks\.0\.attn\.attention_bias_cache`, "):
        fxlib.symbolic_trace(model)
    lowered = fxlib.lower(model, (IMAGE,))
    assert lowered.report.captured_by == "torch.export" and "earlier trace" in lowered.report.not_traced


def test_a_proxy_that_nobody_reads_again_is_no_error():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.last, self.names = {}, None, []

        def forward(self, x):
            self.seen["x"], self.last = x, x * 2
            self.names.append("x")
            return self.last + 1

    model = Keeps()
    fxlib.Tracer().trace(model)
    assert isinstance(model.last, fxlib.Proxy)
    assert fxlib.symbolic_trace(model)(torch.ones(1)) == 3
    fresh = Keeps()
    fxlib.symbolic_trace(fresh)
    assert (fresh.seen, fresh.last, fresh.names) == ({}, None, [])
