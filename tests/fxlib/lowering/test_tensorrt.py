"""TensorRT-RTX engines, built here without a GPU, and what their kernel table says.

The last tests run engines, and do so wherever a GPU and a TensorRT are; elsewhere they check that calling says why not.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn

import fxlib
from examples.deep_recommender import DeepRecommender
from examples.learning_to_paint import Actor
from examples.resnet50 import ResNet50
from examples.transformer import TransformerEncoder
from fxlib.lowering import BuildOptions, EngineError, get
from fxlib.lowering.nvidia.kernels import parse
from fxlib.lowering.nvidia.library import has_driver

MODELS = {
    "resnet50": (ResNet50, lambda: (torch.randn(1, 3, 64, 64),)),
    "actor": (Actor, lambda: (torch.rand(1, 9, 128, 128),)),
    "recommender": (lambda: DeepRecommender(2000), lambda: (torch.randn(1, 2000),)),
    "transformer": (
        lambda: TransformerEncoder(500, positions=32, width=64, heads=4, inner=128, layers=2),
        lambda: (torch.randint(0, 500, (1, 32)), torch.ones(1, 32)),
    ),
}


@pytest.fixture
def options(tmp_path) -> BuildOptions:
    return BuildOptions(cache_dir=str(tmp_path))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        return self.head(y.mean((2, 3)))


class Scattered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, index):
        return self.after(self.before(x).scatter_add(0, index, x))


def test_what_it_refuses_stays_in_pytorch(options: BuildOptions) -> None:
    inputs = torch.randn(3, 4), torch.zeros(2, 4, dtype=torch.int64)
    report = fxlib.lower(Scattered().eval(), inputs, engine="tensorrt_rtx", options=options, min_nodes=1).report
    assert [part.engine for part in report.parts] == ["tensorrt_rtx", None, "tensorrt_rtx"]
    assert "Unsupported reduction" in report.reasons["scatter_add"]


@pytest.mark.parametrize("name", MODELS)
def test_an_engine_is_built_and_every_kernel_leads_to_source(name: str, options: BuildOptions) -> None:
    make, inputs = MODELS[name]
    lowered = fxlib.lower(make().eval(), inputs(), engine="tensorrt_rtx", options=options)
    assert lowered.report.complete, lowered.report.reasons
    (part,) = lowered.report.parts
    assert part.info["plan_bytes"] > 10_000 and part.info["build_s"] > 0
    lowered.list_kernels()
    assert len(part.kernels) >= 3
    converted = {n.name for _, p in lowered.engine_parts() for n in p.exported.model.graph}
    named = {onnx for kernel in part.kernels for onnx in kernel.onnx}
    assert named & converted, "the kernels name ONNX nodes of ours"
    fx_nodes = set(part.nodes)
    assert {node for kernel in part.kernels for node in kernel.nodes} & fx_nodes
    for kernel in part.kernels:
        assert kernel.types and kernel.bytes > 0 and kernel.kind


def test_precision_is_in_the_graph(options: BuildOptions) -> None:
    lowered = fxlib.lower(
        Small().eval(),
        (torch.randn(1, 3, 32, 32),),
        engine="tensorrt_rtx",
        precision="fp16",
        options=options,
        min_nodes=1,
    )
    lowered.list_kernels()
    types = {t for kernel in lowered.report.parts[0].kernels for t in kernel.types}
    assert "Half" in types


def test_int8_by_quantize_and_dequantize_nodes(options: BuildOptions) -> None:
    class Quantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(32, 64))

        def forward(self, x):
            x = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
            w = torch.fake_quantize_per_tensor_affine(self.weight, 0.05, 0, -128, 127)
            return torch.nn.functional.linear(x, w)

    lowered = fxlib.lower(
        Quantized().eval(), (torch.randn(8, 64),), engine="tensorrt_rtx", options=options, min_nodes=1
    )
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(lowered.report.parts[0].operators)
    assert lowered.report.parts[0].info["plan_bytes"] > 0


class Halved(nn.Module):
    """Between two engines, in PyTorch: half the height, and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        y = torch.bernoulli(torch.relu(self.first(x)).clamp(0, 1))
        return torch.relu(self.second(y))


RANGES = {"x": {0: (1, 16), 2: (16, 64), 3: (16, None)}}
SIZES = [[[1, 3, 16, 16], [2, 3, 32, 40], [16, 3, 64, 160]]]
PROFILES = [
    (Small, "fx", True, [[[1, 3, 32, 40], [2, 3, 32, 40], [64, 3, 32, 40]]]),
    (Small, "fx", RANGES, SIZES),
    (Small, "export", RANGES, SIZES),
    (Halved, "fx", RANGES, [*SIZES, [[1, 8, 8, 8], [2, 8, 16, 20], [16, 8, 32, 80]]]),
]


@pytest.mark.parametrize(("make", "capture", "dynamic", "wanted"), PROFILES)
def test_an_engine_is_built_for_the_range_of_sizes(make, capture, dynamic, wanted, options: BuildOptions) -> None:
    """What TensorRT-RTX itself says of its profiles, those of sizes within the model included."""
    lowered = fxlib.lower(
        make().eval(), (torch.randn(2, 3, 32, 40),), engine="tensorrt_rtx", capture=capture, dynamic=dynamic,
        options=options, min_nodes=1,
    )  # fmt: skip
    found = [part.info["profiles"] for part in lowered.report.parts if part.engine]
    assert [list(each.values()) for each in found] == [[each] for each in wanted]
    assert f"built for {wanted[0][0]} to {wanted[0][2]}, best at {wanted[0][1]}" in str(lowered.report)


def test_profiles_are_kept_with_a_saved_model(options: BuildOptions, tmp_path) -> None:
    lowered = fxlib.lower(
        Small().eval(), (torch.randn(2, 3, 32, 40),), engine="tensorrt_rtx", dynamic=RANGES, options=options,
        min_nodes=1,
    )  # fmt: skip
    lowered.save(tmp_path / "saved")
    ((_, part),) = fxlib.lowering.load(tmp_path / "saved").engine_parts()
    assert [*part.program.info["profiles"].values()] == SIZES and part.program.info["cached"]


def test_a_second_build_comes_from_the_cache(options: BuildOptions, tmp_path) -> None:
    torch.manual_seed(0)
    model, x = Small().eval(), torch.randn(1, 3, 32, 32)
    first = fxlib.lower(model, (x,), engine="tensorrt_rtx", options=options, min_nodes=1)
    again = fxlib.lower(model, (x,), engine="tensorrt_rtx", options=options, min_nodes=1)
    assert not first.report.parts[0].info["cached"] and again.report.parts[0].info["cached"]
    for each in (again, first):
        each.list_kernels()
    assert again.report.parts[0].kernels == first.report.parts[0].kernels
    (plan,) = tmp_path.glob("engines/*.plan")
    assert plan.stat().st_mode & 0o077 == 0
    plan.chmod(0o666)  # one that others could have written is not trusted, and built anew
    third = fxlib.lower(model, (x,), engine="tensorrt_rtx", options=options, min_nodes=1)
    assert not third.report.parts[0].info["cached"]


def test_the_builders_refusal_is_in_the_error() -> None:
    class Odd(nn.Module):
        def forward(self, x):
            return torch.sort(x, dim=0)[0].cumsum(0) + 1

    with pytest.raises(EngineError, match="TensorRT-RTX") as caught:
        fxlib.lower(Odd().eval(), (torch.randn(5000, 3, dtype=torch.float64),), engine="tensorrt_rtx", min_nodes=1)
    assert "could not build" in str(caught.value)


def test_plain_tensorrt_says_what_is_missing() -> None:
    told = get("tensorrt").unavailable()
    if told is None:
        pytest.fail("TensorRT and a driver are here: the running test below applies")
    assert "pip install tensorrt" in told or "driver" in told


def test_layer_table_of_a_build_log() -> None:
    text = (
        "Layers:\n"
        "Name: conv_myl0_1, LayerType: correlation, Inputs: [ { Name: x, Dimensions: [1,3,8,8], Strides: [192,64,8,1], "
        "StrideOrder: [3,2,1,0], Datatype: Half, Format: (NHWC) }], Constants: [ { Name: w, Dimensions: [4,3,3,3], "
        "Strides: [27,9,3,1], StrideOrder: [3,2,1,0], Datatype: Half, Format: (Linear) }], Outputs: [ { Name: y, "
        "Dimensions: [1,4,8,8], Strides: [256,64,8,1], StrideOrder: [3,2,1,0], Datatype: Float, Format: (Linear) }], "
        "TacticName: fast_0x1, StreamId: 0, Metadata: [ONNX Layer: conv/Conv][ONNX Layer: relu/Relu]\n\nI/O Tensors:\n"
    )
    (kernel,) = parse(text)
    assert kernel.nodes == ("conv", "relu") and kernel.types == ("Half", "Float") and kernel.tactic == "fast_0x1"
    assert kernel.bytes == 192 * 2 + 108 * 2 + 256 * 4
    assert kernel.onnx == ("conv/Conv", "relu/Relu") and kernel.kind == "correlation"


@pytest.mark.parametrize("engine", ["tensorrt", "tensorrt_rtx"])
def test_running_an_engine(engine: str, options: BuildOptions) -> None:
    model, x = Small().eval(), torch.randn(1, 3, 32, 32)
    if get(engine).unavailable() is not None:
        with pytest.raises(EngineError, match="cannot lower to TensorRT"):
            fxlib.lower(model, (x,), engine=engine, options=options, min_nodes=1)
        return
    lowered = fxlib.lower(model, (x,), engine=engine, options=options, min_nodes=1)
    if not has_driver() or not torch.cuda.is_available():
        with pytest.raises(EngineError, match="there is no GPU on this machine"):
            lowered(x)
        return
    torch.testing.assert_close(lowered(x), model(x), rtol=1e-2, atol=1e-3)
