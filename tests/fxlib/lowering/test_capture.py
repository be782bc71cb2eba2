"""Models that a symbolic trace refuses are lowered by way of torch.export, with the same report."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxlib
from fxlib.lowering.structure import take_apart
from tests.fxlib.zoo.calls import timm_calls, transformers_calls

CALLS = {str(call): call for family in (timm_calls, transformers_calls) for call in family()}


@pytest.mark.parametrize("name", ["distilbert", "segformer", "mobilenet_v2", "convbert"])
def test_models_of_transformers_are_lowered_whole(name, tmp_path):
    """Dicts in, a result of the library's own class out; also after it was saved."""
    call = CALLS[f"transformers:{name}"]
    model = call.build().eval()
    inputs = call.inputs(model)
    lowered = fxlib.lower(model, inputs)
    assert lowered.report.captured_by == "torch.export" and lowered.report.not_traced
    assert not lowered.report.reasons and lowered.report.max_rel_error < 1e-4
    lowered.save(tmp_path)
    for each in (lowered, fxlib.lowering.load(tmp_path)):
        with torch.no_grad():
            expected, got = model(**inputs), each(**inputs)
        assert type(got) is type(expected) and list(got) == list(expected)
        for a, b in zip(take_apart(expected)[0], take_apart(got)[0], strict=True):
            torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)


def test_layers_of_an_exported_model_lead_to_the_users_source():
    model = CALLS["transformers:distilbert"].build().eval()
    report = fxlib.lower(model, CALLS["transformers:distilbert"].inputs(model)).report
    placed = [layer for layer in report.layers if layer.span]
    assert len(placed) > 0.9 * len(report.layers)
    assert all("transformers" in layer.span[0] for layer in placed)


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_a_model_of_timm_is_lowered_either_way(capture):
    model = CALLS["timm:mobilenetv3_small_050"].build().eval()
    x = torch.randn(1, 3, 64, 64)
    report = fxlib.lower(model, (x,), capture=capture).report
    assert report.captured_by == f"torch.{capture}" and not report.not_traced
    assert not report.reasons and report.max_rel_error < 1e-4


def test_what_neither_takes_has_both_reasons():
    class Branch(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(fxlib.lowering.CaptureError, match=r"torch\.fx: TraceError.*torch\.export: "):
        fxlib.lower(Branch().eval(), (torch.randn(3),))


def test_regions_of_other_settings_are_part_of_the_graph():
    class Regions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                y = self.layer(x).relu()
            return y * 2 + x if x.shape[0] == 2 else y

    report = fxlib.lower(Regions().eval(), (torch.randn(2, 4),), capture="export").report
    assert not report.reasons and report.max_rel_error < 1e-5


class FirstOfTwo(nn.Module):
    """An exported pooling gives values and positions; the positions are not used."""

    def forward(self, x):
        return nn.functional.adaptive_max_pool2d(x.relu(), (4, 1)).tanh() * 2


class Spectrum(nn.Module):
    def forward(self, x):
        return (x.abs() * 2 + 1).relu().tanh()


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_the_first_of_several_results(capture):
    lowered = fxlib.lower(FirstOfTwo().eval(), (torch.randn(2, 3, 8, 8),), capture=capture)
    assert not lowered.report.reasons and lowered.report.max_rel_error < 1e-5


@pytest.mark.parametrize("capture", ["fx", "export"])
def test_what_reads_numbers_that_onnx_does_not_have_stays(capture):
    lowered = fxlib.lower(Spectrum().eval(), (torch.randn(2, 3, dtype=torch.complex64),), capture=capture)
    (reason,) = lowered.report.reasons.values()
    assert "no element type for torch.complex64" in reason and lowered.report.max_rel_error < 1e-5
