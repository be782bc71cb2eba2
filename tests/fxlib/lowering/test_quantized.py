"""The exchange form of a quantized model, with explicit quantize and dequantize, lowers whole and agrees with int8."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import nn

import fxlib
from fxlib.passes.quantize import quantize_static
from fxlib.passes.quantize.report import relative_error


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("per_channel", [False, True])
def test_qdq_form_lowers_whole(per_channel):
    torch.manual_seed(0)
    model = Net().eval()
    batches = [(torch.randn(2, 3, 16, 16),) for _ in range(4)]
    quantized = quantize_static(fxlib.symbolic_trace(model), batches, form="qdq", per_channel=per_channel)
    lowered = fxlib.lower(quantized.eval(), batches[0])
    assert lowered.report.complete, lowered.report.reasons
    operators = {name for part in lowered.report.parts for name in part.operators}
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators
    with torch.no_grad():
        want, got, exact = quantized(*batches[1]), lowered(*batches[1]), model(*batches[1])
    # One step of the last quantization apart at most: roundings may fall to the other side of a half.
    assert (want - got).abs().max() < 0.02 * want.abs().max()
    assert (exact - got).abs().max() < 0.1 * exact.abs().max()


MODELS: dict[str, dict[str, int]] = {
    "resnet18": {}, "mobilenetv2_050": {}, "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
}  # fmt: skip


def quantized(name, engine):
    """A model of timm, its int8 form for the engine, and an example."""
    torch.manual_seed(0)
    model = timm.create_model(name, **MODELS[name]).eval()
    batches = [torch.randn(2, 3, 64, 64) for _ in range(2)]
    eight = quantize_static(fxlib.symbolic_trace(model), batches, form="qdq", engine=engine)
    assert eight.meta["quantize"].total_error <= 0.05
    return model, eight, batches[0]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_timm_in_int8(name, engine):
    """What the engine computes is as near to the float model as the report of the quantization says."""
    model, eight, x = quantized(name, engine)
    lowered = fxlib.lower(eight, (x,), engine=engine)
    assert not lowered.report.reasons
    with torch.no_grad():
        assert relative_error(lowered(x), model(x)) <= 0.06


@pytest.mark.parametrize("name", MODELS)
def test_models_of_timm_are_built_in_int8_by_tensorrt_rtx(name, tmp_path):
    """It builds without a GPU, and lists the types of its kernels. What it was given is right by ONNX Runtime."""
    model, eight, x = quantized(name, "tensorrt_rtx")
    options = fxlib.lowering.BuildOptions(cache_dir=str(tmp_path))
    lowered = fxlib.lower(eight, (x,), engine="tensorrt_rtx", options=options)
    assert not lowered.report.reasons
    lowered.list_kernels()
    kernels = [kernel for part in lowered.report.parts for kernel in part.kernels]
    convolutions = ["Int8" in kernel.types for kernel in kernels if kernel.kind == "correlation"]
    layers = eight.meta["quantize"].layers
    quantized_ones = sum(each.quantized for each in layers if isinstance(model.get_submodule(each.path), nn.Conv2d))
    assert sum(convolutions) == quantized_ones > 0
    # Of MobileNetV2's, many are left in float for the tolerance.
    assert all(each.quantized for each in layers) == (name != "mobilenetv2_050")
    with torch.no_grad():
        assert relative_error(fxlib.lower(eight, (x,))(x), model(x)) <= 0.06


def test_only_the_exchange_form_is_for_an_engine():
    traced = fxlib.symbolic_trace(Net().eval())
    with pytest.raises(ValueError, match=r"engine='openvino' needs form='qdq'"):
        quantize_static(traced, [torch.randn(2, 3, 16, 16)], engine="openvino")
