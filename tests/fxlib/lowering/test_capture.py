"""Models that a symbolic trace refuses are lowered by way of torch.export, with the same report."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

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


class Written(nn.Module):
    """A convolution, its batch norm, and what `write` does before them to the module."""

    def __init__(self, write):
        super().__init__()
        self.conv, self.norm, self.write = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), write
        self.norm.running_mean.uniform_(), self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        self.write(self)
        return self.norm(self.conv(x)).relu()


def loaded(net):
    net.norm.load_state_dict({name: value + 1 for name, value in net.norm.state_dict().items()})


LOST = {
    "a buffer, before it is read": lambda net: net.norm.running_mean.add_(1),
    "state_dict": lambda net: [value.add_(0.1) for value in net.state_dict().values() if value.is_floating_point()],
    "load_state_dict": loaded,
    "reset_running_stats": lambda net: net.norm.reset_running_stats(),
}
KEPT = {
    "training mode": lambda net: net.norm.train(),
    "torch.nn.init": lambda net: nn.init.constant_(net.conv.weight, 0.5),
    "setitem": lambda net: net.conv.weight.data.__setitem__(0, 0.5),
    "an array of NumPy": lambda net: net.conv.weight.data.numpy().__imul__(1.1),
}


@pytest.mark.parametrize("write", {**LOST, **KEPT}.values(), ids={**LOST, **KEPT})
def test_what_forward_writes_is_written_by_the_lowered_model(write):
    """By way of torch.export, where a trace would lose it; also in later calls, and the model is as it was."""
    torch.manual_seed(0)
    net, x = Written(write).eval(), torch.randn(2, 3, 8, 8)
    eager, before = copy.deepcopy(net), copy.deepcopy(net.state_dict())
    lowered = fxlib.lower(net, (x,), min_nodes=1)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert bool(lowered.report.not_traced) is (write in LOST.values())
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(lowered(x), eager(x), rtol=1e-4, atol=1e-5)


class Hidden(nn.Module):
    def forward(self, x):
        return x.relu() * 2 if isinstance(x, torch.Tensor) else x.relu()


def test_a_trace_that_gives_another_result_is_not_lowered():
    lowered = fxlib.lower(Hidden().eval(), (torch.randn(2, 3),), min_nodes=1)
    assert "another result than forward" in lowered.report.not_traced and lowered.report.max_rel_error < 1e-6
    hooked = Hidden().eval()
    hooked.register_forward_hook(lambda module, args, result: result + 1)
    assert fxlib.lower(hooked, (torch.randn(2, 3),), min_nodes=1).report.max_rel_error < 1e-6
    traced = fxlib.lower(Hidden().eval(), (torch.randn(2, 3),), min_nodes=1, capture="fx")  # as it was asked for
    assert traced.report.max_rel_error > 0.1


class Neither(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        for weight in self.parameters():
            weight.data.mul_(2)
        return self.layer(x)


def test_what_no_capture_keeps_is_named():
    model = Neither().eval()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(fxlib.lowering.CaptureError, match=r"forward writes to layer\.weight, layer\.bias only while"):
        fxlib.lower(model, (torch.randn(2, 3),))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@dataclass
class Lines:
    """A result that pytree does not know: a trace can make it of proxies, with a list of them it cannot."""

    lines: Any
    count: int


class Told(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return Lines(self.layer(x).relu(), x.shape[0] * 2)


@pytest.mark.parametrize("capture", ["fx", "export"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_objects_of_a_result_hold_what_the_call_gives(dynamic, capture):
    model, x = Told().eval(), torch.randn(2, 4)
    lowered = fxlib.lower(model, (x,), dynamic=dynamic, min_nodes=1, capture=capture)
    for given in (x, torch.randn(5, 4)) if dynamic else (x,):
        with torch.no_grad():
            result, expected = lowered(given), model(given)
        assert result.count == expected.count
        torch.testing.assert_close(result.lines, expected.lines)


def test_layers_that_are_left_in_training_mode_stay_so():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4)).eval()
    model[1].train()  # Monte Carlo dropout
    report = fxlib.lower(model, (torch.randn(2, 4),)).report
    assert model[1].training and report.codes["_1"] == "FX405"


UNIMPLEMENTED = {
    "float64": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).double(), torch.float64),
    "bfloat16": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)).bfloat16(),
        torch.bfloat16,
    ),
}


@pytest.mark.parametrize("name", UNIMPLEMENTED)
def test_what_onnx_runtime_has_no_kernel_for_stays(name):
    model, dtype = UNIMPLEMENTED[name]
    report = fxlib.lower(model.eval(), (torch.randn(1, 3, 4, 4, dtype=dtype),), min_nodes=1).report
    assert "Conv" in report.reasons["_0"] and report.codes["_0"] == "FX499" and report.max_rel_error < 1e-2
