"""The engine of OpenVINO: whole models agree with eager, memory belongs to the caller, kernels lead to source lines."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import fxlib
from examples.deep_recommender import DeepRecommender
from examples.learning_to_paint import Actor
from examples.resnet50 import ResNet50
from examples.transformer import TransformerEncoder
from fxlib.lowering import BuildOptions, EngineError, load
from fxlib.lowering.engines import openvino
from fxlib.passes.quantize import quantize_static
from tests.fxlib.lowering.test_lower import Middle
from tests.fxlib.zoo.models import timm_models, torchvision_models

ONE = BuildOptions(threads=1)
BUILDERS = {f"{e.family}:{e.name}": e.build for e in (*torchvision_models(), *timm_models(every=True))}
FAMILIES = {
    "torchvision:resnet18": 64, "torchvision:squeezenet1_1": 64, "torchvision:mobilenet_v3_small": 64,
    "torchvision:shufflenet_v2_x0_5": 64, "torchvision:mnasnet0_5": 64, "torchvision:regnet_y_400mf": 64,
    "torchvision:lraspp_mobilenet_v3_large": 64, "timm:convnext_atto": 64, "timm:ghostnet_100": 64,
    "timm:vit_tiny_patch16_224": 224, "timm:poolformer_s12": 64, "timm:starnet_s1": 64,
}  # fmt: skip
EXAMPLES = {
    "resnet50": (ResNet50, lambda: (torch.randn(1, 3, 64, 64),)),
    "transformer": (
        lambda: TransformerEncoder(500, positions=64, width=64, heads=4, inner=128, layers=2),
        lambda: (torch.randint(0, 500, (2, 16)), torch.ones(2, 16)),
    ),
    "recommender": (lambda: DeepRecommender(2000), lambda: (torch.rand(4, 2000),)),
    "actor": (Actor, lambda: (torch.randn(1, 9, 128, 128),)),
}


def lower(model: nn.Module, inputs: tuple, **more):
    return fxlib.lower(model, inputs, engine="openvino", options=BuildOptions(threads=1), **more)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.plain, self.second = nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16, affine=False)
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = x + self.second(self.plain(x))
        return self.head(x.mean((2, 3)))


def block() -> Block:
    torch.manual_seed(0)
    model = Block()
    with torch.no_grad():
        model(torch.randn(8, 4, 16, 16) * 3 + 1)  # the norms have seen something
    return model.eval()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_agree(name: str) -> None:
    make, inputs = EXAMPLES[name]
    torch.manual_seed(0)
    model = make().eval()
    lowered = lower(model, inputs())
    assert lowered.report.complete and lowered.report.max_rel_error < 1e-4
    fresh = inputs()
    with torch.no_grad():
        torch.testing.assert_close(lowered(*fresh), model(*fresh), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_agree(name: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = lower(BUILDERS[name]().eval(), (torch.randn(1, 3, FAMILIES[name], FAMILIES[name]),))
    assert lowered.report.complete, lowered.report.reasons
    assert lowered.report.max_rel_error < 1e-3


def test_what_has_no_converter_stays_in_pytorch() -> None:
    model, x = Middle().eval(), torch.randn(2, 3, 8, 8)
    lowered = lower(model, (x,))
    assert [part.engine for part in lowered.report.parts] == ["openvino", None, "openvino"]
    torch.testing.assert_close(lowered(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [None, True], ids=["fixed", "dynamic"])
def test_a_result_is_the_callers(dynamic) -> None:
    model = block()
    lowered = lower(model, (torch.randn(2, 4, 16, 16),), dynamic=dynamic)
    first, second = torch.randn(2, 4, 16, 16), torch.randn(2, 4, 16, 16)
    given = first.clone()
    held = lowered(first)
    kept = held.clone()
    for _ in range(3):
        lowered(second)
    assert torch.equal(held, kept), "a later call wrote into it"
    assert torch.equal(first, given), "a call wrote into its input"
    del lowered
    gc.collect()
    assert torch.equal(held, kept), "it went away with the program"
    torch.testing.assert_close(held, model(first), rtol=1e-4, atol=1e-5)


def test_sizes_may_change() -> None:
    model = block()
    lowered = lower(model, (torch.randn(2, 4, 16, 16),), dynamic=True)
    for batch in (1, 5, 2):
        x = torch.randn(batch, 4, 16, 16)
        torch.testing.assert_close(lowered(x), model(x), rtol=1e-4, atol=1e-5)


class Brighter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 100).float() / 255


def test_arithmetic_with_bytes_stays_in_pytorch() -> None:
    """It would agree on the example, and saturate on larger numbers."""
    small = torch.tensor([[1, 2, 3]], dtype=torch.uint8)
    lowered = lower(Brighter().eval(), (small,), min_nodes=1)
    assert lowered.report.reasons == {"add": "OpenVINO's Add of uint8 saturates where torch wraps around"}
    torch.testing.assert_close(lowered(small + 200), Brighter()(small + 200))
    lowered = lower(Brighter().eval(), (small.int(),), min_nodes=1)
    torch.testing.assert_close(lowered(small.int() + 200), (small + 300.0) / 255)


def test_calls_of_several_threads() -> None:
    model = block()
    lowered = lower(model, (torch.randn(1, 4, 16, 16),))
    inputs = [torch.randn(1, 4, 16, 16) for _ in range(40)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lowered, inputs))
    for x, got in zip(inputs, results, strict=True):
        torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-5)


class Several(nn.Module):
    def forward(self, x, unread, ids):
        y = torch.relu(x) * 2
        return y, torch.relu(x) * 2, y.sum(), ids + 1, (y > 0.5, y.half())


def test_inputs_and_outputs_keep_their_order_and_types() -> None:
    given = (torch.randn(2, 3), torch.ones(1), torch.tensor([1, 2**40]))
    lowered = lower(Several().eval(), (*given[:2], torch.tensor([1, 2])), min_nodes=1)
    given = (*given[:2], torch.tensor([3, 4]))
    want, got = Several()(*given), lowered(*given)
    for a, b in zip([*want[:4], *want[4]], [*got[:4], *got[4]], strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(b, a)
    got[0].zero_()
    torch.testing.assert_close(got[1], want[1])  # computed once, and yet a tensor of its own
    with pytest.raises(TypeError, match=r"lowered for torch\.float32"):
        lowered(given[0].double(), *given[1:])


def test_bf16_is_computed_by_the_engine() -> None:
    model, x = ResNet50().eval(), torch.randn(1, 3, 64, 64)
    if "BF16" not in openvino.core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(EngineError, match=r'no bf16 arithmetic .* use precision="fp32"'):
            lower(model, (x,), precision="bf16")
        return
    lowered = lower(model, (x,), precision="bf16")
    assert lowered(x).dtype == torch.float32
    assert 0 < lowered.report.max_rel_error < 5e-2
    lowered.list_kernels()
    (part,) = lowered.report.parts
    assert part.info["arithmetic"] == "bf16"
    kernels = [each for each in part.kernels if each.kind == "Convolution"]
    assert len(kernels) == 53 and all(each.types[0] == "bf16" for each in kernels)


def test_fp16_is_in_the_graph() -> None:
    model, x = block(), torch.randn(2, 4, 16, 16)
    lowered = lower(model, (x,), precision="fp16")
    assert lowered(x).dtype == torch.float32 and 0 < lowered.report.max_rel_error < 1e-2
    assert {layer.precision for layer in lowered.report.layers if layer.operators} == {"f16"}


def test_int8_comes_from_the_graph() -> None:
    model = block()
    batches = [(torch.randn(2, 4, 16, 16),) for _ in range(4)]
    quantized = quantize_static(fxlib.symbolic_trace(model), batches, form="qdq").eval()
    lowered = lower(quantized, batches[0])
    assert lowered.report.complete, lowered.report.reasons
    with torch.no_grad():
        want, got = quantized(*batches[1]), lowered(*batches[1])
    assert (want - got).abs().max() < 0.05 * want.abs().max()
    lowered.list_kernels()
    types = {kind for kernel in lowered.report.parts[0].kernels for kind in kernel.types}
    assert types & {"i8", "u8"}, types


def test_kernels_lead_to_nodes_and_lines() -> None:
    lowered = lower(block(), (torch.randn(1, 4, 16, 16),))
    lowered.list_kernels()
    (part,) = lowered.report.parts
    kernels = {each.nodes: each for each in part.kernels}
    first = kernels["conv", "norm", "relu"]
    assert first.kind == "Convolution" and first.types == ("f32",) and first.tactic and first.bytes
    rows = {row.node: row for row in lowered.profile(torch.randn(1, 4, 16, 16), runs=3)}
    assert rows["conv"].nodes == ["conv", "norm", "relu"] and rows["conv"].kernels == ["Convolution"]
    assert rows["plain"].nodes[:2] == ["plain", "second"]
    assert rows["head"].span[0] == __file__ and rows["head"].kernels == ["FullyConnected"]
    assert abs(sum(row.share for row in rows.values()) - 1) < 1e-6 and all(row.ms >= 0 for row in rows.values())


def test_a_saved_model_is_compiled_when_it_is_read(tmp_path) -> None:
    model, x = block(), torch.randn(2, 4, 16, 16)
    lowered = lower(model, (x,))
    lowered.save(tmp_path / "saved")
    assert {path.suffix for path in (tmp_path / "saved").iterdir()} == {".json", ".pt", ".onnx"}
    torch.testing.assert_close(load(tmp_path / "saved")(x), lowered(x))


def test_what_it_cannot_take_stays_in_pytorch() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval()
    lowered, x = lower(model, (torch.randn(1, 4, 8, 8),), min_nodes=1), torch.randn(1, 4, 8, 8)
    (reason,) = set(lowered.report.reasons.values())
    assert re.search(r'refused the model: Pad of node .*\[wrap\].*; engine="onnxruntime" may', reason)
    torch.testing.assert_close(lowered(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_missing_package_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(openvino, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"cannot lower to OpenVINO: .* `pip install openvino` adds it$"):
        lower(block(), (torch.randn(1, 4, 16, 16),))


def test_nothing_is_sent(tmp_path) -> None:
    """pip brings a package along that reports each import of openvino: it is not used, and no socket is made."""
    package = tmp_path / "openvino_telemetry"
    package.mkdir()
    (package / "__init__.py").write_text("open('used', 'w')\n")
    program = """
        import os, socket, sys
        sys.path.insert(0, os.getcwd())
        opened = []
        sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
        import torch, fxlib
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
        x = torch.randn(3, 4)
        lowered = fxlib.lower(net, (x,), engine="openvino")
        torch.testing.assert_close(lowered(x), net(x))
        assert not os.path.exists("used") and not opened, opened
        import openvino_telemetry  # it is there for others
        assert os.path.exists("used")
        print("nothing")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.stdout == "nothing\n", done.stderr
