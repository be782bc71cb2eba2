"""`fxlens lower`, `bench` and `estimate` as processes, on files that were written here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from fxlens.worker import specified
from warm_python import warm_fxlens

import fxlib
from fxlib.lowering import table

MODEL = """
import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 3, 16, 16)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3)))


class NoInputs(nn.Module):
    def forward(self, x):
        return x.from_a_library_of_ours()
"""

FAILING = """
import torch
from torch import nn


# fxlens: Failing() <- torch.randn(2, 4)
class Failing(nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.ones(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    return tmp_path


def fxlens(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(warm_fxlens(*arguments), cwd=folder, capture_output=True, text=True, timeout=240)


def test_lower_prints_the_report_and_saves(folder: Path) -> None:
    done = fxlens(folder, "lower", "net.py::Net", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "Net on ONNX Runtime, fp32: 5 of 5 nodes in 1 part" in done.stdout
    assert "difference from eager" in done.stdout
    assert (folder / "out" / "manifest.json").is_file()


def test_lower_previews_and_saves_nothing(folder: Path) -> None:
    done = fxlens(folder, "lower", "net.py::Net", "--preview", "--engine", "tensorrt")
    assert done.returncode == 0, done.stderr
    assert "Net on TensorRT, fp32: 5 of 5 nodes in 1 part (preview: nothing is built)" in done.stdout
    assert "5 nodes, 100.0% of the FLOPs" in done.stdout and "difference" not in done.stdout
    both = fxlens(folder, "lower", "net.py::Net", "--preview", "-o", "out")
    assert both.returncode == 2 and "not allowed with argument" in both.stderr


def test_lower_json(folder: Path) -> None:
    done = fxlens(folder, "lower", "net.py::Net", "--format", "json", "--dynamic")
    report = json.loads(done.stdout)
    assert report["complete"] and report["max_rel_error"] < 1e-4
    assert report["parts"][0]["operators"]["Conv"] == 1


AUTO = torch.export.Dim.AUTO
SHAPES = """
NET_SHAPES = {
    "x": {0: torch.export.Dim("batch"), 2: 2 * torch.export.Dim("half", min=4), 3: torch.export.Dim("width")},
}
"""


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_sizes_that_the_file_names_may_change(folder: Path, engine: str) -> None:
    seeded = MODEL.replace("super().__init__()", "super().__init__()\n        torch.manual_seed(3)") + SHAPES
    (folder / "net.py").write_text(seeded)
    done = fxlens(folder, "lower", "net.py::Net", "-o", "out", "--dynamic", "--engine", engine)
    assert done.returncode == 0, done.stderr
    lowered = fxlib.lowering.load(folder / "out")
    names: dict[str, Any] = {}
    exec(seeded, names)
    eager = names["Net"]().eval()
    for batch, height, width in ((2, 16, 16), (5, 24, 9), (1, 8, 40)):
        x = torch.randn(batch, 3, height, width)
        torch.testing.assert_close(lowered(x), eager(x), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="dynamic= of lower"):
        lowered(torch.randn(2, 5, 16, 16))


def test_dimensions_are_read_in_every_form_that_export_takes() -> None:
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    short = torch.export.Dim("short", min=2, max=9)
    said = {
        "x": (None, length), "pair": [{0: batch}, {1: 2 * length}], "more": {"y": {0: batch}}, "hint": {0: AUTO},
        "two": ({0: short}, {0: 3 * short - 1, 1: short}),
    }  # fmt: skip
    some = (1, None)
    assert specified.dimensions(said, {}) == {
        "x": {1: some}, "pair": {0: some, 1: (2, None)}, "more": {0: some}, "two": {0: (2, 26), 1: (2, 9)},
    }  # fmt: skip


def test_a_tensor_of_which_nothing_is_said_keeps_the_size_of_the_example() -> None:
    short = torch.export.Dim("short", min=4, max=8)
    ranges = specified.dimensions({"xs": ({0: short}, None)}, {"xs": (torch.ones(5), torch.ones(1)), "more": 3})
    assert ranges == {"xs": {0: (1, 8)}}
    assert specified.dimensions({"x": {0: short}}, {"x": torch.ones(1)}) == {"x": {0: (4, 8)}}


PAIR = """
import torch
from torch import nn

LONG = torch.export.Dim("long", min=4, max=8)
PAIR_SHAPES = {"xs": ({0: LONG}, None)}


# fxlens: Pair() <- (torch.ones(5, 3), torch.ones(1, 3))
class Pair(nn.Module):
    def forward(self, xs):
        return torch.relu(xs[0]) * 2, xs[1] * 3 + 1
"""


def test_a_model_of_a_pair_of_which_one_may_change_is_lowered(folder: Path) -> None:
    (folder / "pair.py").write_text(PAIR)
    done = fxlens(folder, "lower", "pair.py::Pair", "--preview", "--dynamic", "--engine", "onnxruntime")
    assert done.returncode == 0, done.stderr


def test_an_engine_is_built_for_the_ranges_that_the_file_names(folder: Path) -> None:
    ranged = SHAPES.replace('"batch")', '"batch", max=32)').replace("min=4)", "min=4, max=20)")
    (folder / "ranged.py").write_text(MODEL + ranged)
    done = fxlens(folder, "lower", "ranged.py::Net", "--dynamic", "--engine", "tensorrt_rtx", "--format", "json")
    (part,) = json.loads(done.stdout)["parts"]
    assert [*part["info"]["profiles"].values()] == [[[1, 3, 8, 1], [2, 3, 16, 16], [32, 3, 40, 64]]]


def test_estimate_on_a_device(folder: Path) -> None:
    done = fxlens(folder, "estimate", "net.py::Net", "--device", "h100", "--format", "json")
    told = json.loads(done.stdout)
    assert told["device"] == "H100"
    assert told["totals"]["flops"] == 2 * 2 * 8 * 16 * 16 * 27 + 2 * 2 * 8 * 4
    conv = next(node for node in told["nodes"] if node["name"] == "conv")
    assert conv["parameters"] == 8 * 27 + 8 and conv["seconds"] > 0
    assert "self.conv(x)" in MODEL.splitlines()[conv["line"] - 1]


def test_stages_side_by_side(folder: Path) -> None:
    told = json.loads(fxlens(folder, "stages", "net.py::Net", "--format", "json").stdout)
    names = [stage["name"] for stage in told["stages"]]
    assert names == ["torch.fx", "torch.export", "fused", "ONNX", "ONNX Runtime"] and told["compared"] is False
    fused = {step["name"]: step for step in told["stages"][2]["steps"]}
    assert fused["conv"]["origins"] == ["conv", "norm"] and fused["conv"]["max_rel"] is None
    shown = fxlens(folder, "stages", "net.py::Net", "--compare").stdout
    assert "fused: 6 nodes, 6 of them known from the first stage; at most " in shown, shown
    assert any(line.startswith("norm ") and "in conv" in line for line in shown.splitlines())
    shown = fxlens(folder, "stages", "net.py::Net", "--compare", "--quantize", "--engine", "openvino").stdout
    assert "  quantized: " in shown and "(OpenVINO gives no values between its kernels" in shown, shown
    refused = fxlens(folder, "stages", "net.py::Net", "--engine", "none")
    assert refused.returncode == 2 and "there is no engine 'none'" in refused.stderr


def test_stages_of_a_model_that_fails_itself_say_so(folder: Path) -> None:
    (folder / "failing.py").write_text(FAILING)
    done = fxlens(folder, "stages", "failing.py::Failing", "--compare")
    wanted = "Failing has no stages: the model itself fails on the example inputs: RuntimeError: The size of tensor a"
    assert done.returncode == 2 and wanted in done.stderr, done


def test_engines_are_those_of_the_table(folder: Path) -> None:
    done = fxlens(folder, "engines")
    assert done.returncode == 0, done.stderr
    shown = [line.split()[0] for line in done.stdout.splitlines()]
    assert shown == list(table())
    listed = json.loads(fxlens(folder, "engines", "--format", "json").stdout)
    assert listed == [engine.as_dict() for engine in table().values()]


def test_bench_measures_and_draws(folder: Path) -> None:
    (folder / "plot.svg").symlink_to(folder / "plots" / "net.svg")
    (folder / "plots").mkdir()
    done = fxlens(
        folder, "bench", "net.py::Net", "--variants", "generated", "onnxruntime", "openvino", "--rounds", "3",
        "--batch", "1", "4", "--threads", "1", "--format", "json", "--svg", "plot.svg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = {(row["variant"], row["batch"]): row for row in report["rows"]}
    assert set(rows) == {(v, b) for v in ("eager", "generated", "onnxruntime", "openvino") for b in (1, 4)}
    for row in rows.values():
        assert row["problem"] is None and row["samples"] == 3 and row["median_ms"] > 0
        assert row["max_rel_error"] < 1e-4
    layers = {layer["node"]: layer for layer in rows["onnxruntime", 1]["layers"]}
    assert layers["conv"]["ms"] > 0 and "Conv" in layers["conv"]["kernels"]
    assert "self.conv(x)" in MODEL.splitlines()[layers["conv"]["span"][1] - 1]
    assert "Convolution" in {kernel for layer in rows["openvino", 1]["layers"] for kernel in layer["kernels"]}
    assert not rows["eager", 1]["layers"] and not rows["onnxruntime", 4]["layers"]
    assert (folder / "plots" / "net.svg").read_text().startswith("<svg")
    assert (folder / "plot.svg").is_symlink()
    done = fxlens(folder, "bench", "nothing.py", "--svg", "plot.svg")
    assert done.returncode == 2 and "FX Lens did not write it" not in done.stderr, "its own plot may be replaced"


def test_a_plot_replaces_no_other_file_and_no_link_even_where_the_run_fails(folder: Path) -> None:
    drawing, link = folder / "drawing.svg", folder / "plot.svg"
    drawing.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    link.symlink_to(folder / "net.svg")
    done = fxlens(folder, "bench", "net.py::Net", "--svg", "drawing.svg")
    assert done.returncode == 2 and done.stderr.endswith("Choose another file, or replace it with --force\n"), done
    done = fxlens(folder, "bench", "nothing.py", "--svg", "drawing.svg", "--force")
    assert "nothing.py" in done.stderr and "drawing.svg" not in done.stderr and drawing.read_text().startswith("<svg")
    done = fxlens(folder, "bench", "nothing.py", "--svg", "plot.svg")
    assert done.returncode == 2 and link.is_symlink() and not link.exists(), done


def test_bench_tells_the_slowest_layers_and_their_lines(folder: Path) -> None:
    done = fxlens(
        folder,
        "bench",
        "net.py::Net",
        "--variants",
        "onnxruntime",
        "compile",
        "--without",
        "compile",
        "--rounds",
        "3",
        "--layers",
        "1",
    )
    assert done.returncode == 0, done.stderr
    rows, _, layers = done.stdout.partition("\n\n")
    assert "ready s" in rows and "MiB" in rows
    head, line = layers.strip().split("\n")
    assert head.startswith("ONNX Runtime by layer, batch ") and " ms in " in head
    assert "net.py:" in line and "%" in line
    assert "torch.compile" not in rows


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("lower", "net.py::NoInputs"), "has no example inputs; write them above its class"),
        (("lower", "net.py::Gone"), "has no model Gone; its models: Net, NoInputs"),
        (("estimate", "net.py::Net", "--device", "abacus"), "no device 'abacus'"),
        (("bench", "net.py::Net", "--variants", "magic"), "unknown variant 'magic'"),
        (("lower", "missing.py"), "missing.py"),
        (("lower", "net.py::Net", "--engine", "tensorrt"), "TensorRT"),
        (("lower", "net.py::Net", "--engine", "abacus"), f"the engines are {', '.join(table())}"),
    ],
)
def test_refusals_are_one_sentence(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    done = fxlens(folder, *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert text in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
