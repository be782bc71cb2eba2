"""What stays in PyTorch is known before anything is lowered: the code, the line, and that lowering does just that."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

import fxlib
from fxlib.lowering import check

PAGES = Path(__file__).resolve().parents[3] / "docs" / "rules"
CODES = ("FX401", "FX402", "FX403", "FX404", "FX405", "FX406", "FX499")


def net_of_page(code: str, folder: Path) -> tuple[nn.Module, str, int]:
    """The model of a rule's page, its file, and the line that the page marks."""
    (text,) = re.findall(r"```python\n(import torch\n.*?)```", (PAGES / f"{code}.md").read_text(), re.DOTALL)
    path = folder / f"page_{code.lower()}.py"
    path.write_text(text)
    namespace: dict = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), namespace)
    (line,) = [number for number, content in enumerate(text.split("\n"), 1) if "# <- here" in content]
    return namespace["Net"](), str(path), line


@pytest.mark.parametrize("code", CODES)
def test_example_of_the_page(code, tmp_path):
    net, path, line = net_of_page(code, tmp_path)
    found = check(net, (torch.randn(4, 8),))
    assert (code, path, line) in [(each.code, each.span.file, each.span.line) for each in found]
    assert net.training, "the mode is left as it was"


@pytest.mark.parametrize("code", CODES)
def test_lowering_leaves_just_these_in_pytorch(code, tmp_path):
    net, _, _ = net_of_page(code, tmp_path)
    found = check(net, (torch.randn(4, 8),))
    report = fxlib.lower(net.eval(), (torch.randn(4, 8),)).report
    assert report.codes == {each.node: each.code for each in found}
    assert report.reasons == {each.node: each.reason for each in found}


def test_parameters_and_inputs_need_no_data(tmp_path):
    net, _, line = net_of_page("FX401", tmp_path)
    with torch.device("meta"):
        found = check(net.to("meta"), (torch.randn(4, 8),))
    assert [(each.code, each.span.line) for each in found] == [("FX401", line)]


def test_dropout_that_follows_the_mode_is_no_obstacle():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))

        def forward(self, x):
            return nn.functional.dropout(self.layers(x), 0.1, self.training) + 1

    net = Net()
    net.layers[1].eval()
    assert check(net, (torch.randn(1, 3, 8, 8),)) == []
    assert net.training and not net.layers[1].training and net.layers[2].training


def test_follows_edits_of_a_resnet50():
    with torch.device("meta"):
        model, image = torchvision.models.resnet50(), torch.randn(1, 3, 224, 224)
    assert check(model, (image,)) == []  # the first call fills tables
    start = time.process_time()
    assert check(model, (image,)) == []
    spent = time.process_time() - start
    # Some 0.15 s of this process's own time on an idle machine; ten times that would no longer follow edits anywhere.
    assert spent < 1.5, f"{spent * 1e3:.0f} ms"


def test_layers_keep_the_names_of_the_whole_graph(tmp_path):
    """The copies of nodes in a part have names of their own, such as `add` for the second `add_1`."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = torch.linalg.solve(self.linear(x) + 1, x * 2)
            return torch.relu(y) * 2 + 1

    report = fxlib.lower(Net().eval(), (torch.randn(8, 8),)).report
    engine = {layer.node: layer.operators for layer in report.layers if layer.engine}
    assert engine["add_1"] == ["Add"] and engine["mul_1"] == ["Mul"] and engine["linear"]
    assert sum(layer.weights_bytes for layer in report.layers) >= 4 * (64 + 8)
    assert [layer.code for layer in report.layers if not layer.engine] == ["FX401"]
