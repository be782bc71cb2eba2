"""Layers that get their sizes from a first call are judged like others, and their models are restored."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import torch
from torch import nn
from warm_python import warm_fxlens

import fxlib

MODELS = """import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.norm = nn.LazyBatchNorm1d()
        self.out = nn.LazyLinear(classes)

    def forward(self, x):
        return self.out(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.LazyConv2d(8, 3)
        self.head = Head(10)

    def forward(self, x):
        x = self.conv(x).flatten(1)
        if x.mean() > 0:
            x = x * 2
        return self.head(x)


net = Net()
net(torch.randn(2, 3, 8, 8))
"""


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(warm_fxlens(*command), cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_a_check_knows_their_sizes_and_proves_fixes(tmp_path: Path):
    (tmp_path / "net.py").write_text(MODELS.replace("net = Net()\nnet(", "def main():\n    Net()("))
    checked = json.loads(run(tmp_path, "check", "net.py", "--no-cache", "--all", "--format", "json"))
    (file,) = checked["files"]
    assert {each["name"]: each["status"] for each in file["targets"]} == {"Head": "traced", "Net": "partial"}
    (finding,) = file["findings"]
    assert finding["code"] == "FX101"
    assert [fix["preferred"] for fix in finding["fixes"]][:1] == [True]
    (tmp_path / "net.py").write_text(MODELS.replace("if x.mean() > 0:", "if self.training:"))
    total = run(tmp_path, "estimate", "net.py::Net").replace(",", "")
    assert str(3 * 8 * 9 + 8 + 2 * 288 + 288 * 10 + 10) in total, "convolution, norm over 8 times 6 by 6, and product"


def test_diagnose_leaves_them_as_they_are():
    module = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    report = fxlib.diagnose(module, (torch.randn(2, 3, 8, 8),))
    assert report.findings == [] and report.graph is not None
    assert isinstance(module[0], nn.LazyConv2d) and isinstance(module[0].weight, nn.UninitializedParameter)
