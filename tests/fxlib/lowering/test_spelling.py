"""An operation is called in messages as people write it."""

from __future__ import annotations

import torch
from torch import nn

import fxlib
import fxlib.lowering
from fxlib.lowering.spelling import spelling


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(torch.fft.fft2(x).real) + x
        y = torch.special.expit(torch.linalg.norm(y)).clamp(1)
        return torch.relu(torch.cdist(y, y) + torch.ops.aten.gelu.default(torch.nn.functional.gelu(y)))


def test_operations_are_called_as_they_are_written() -> None:
    traced = fxlib.symbolic_trace(Net())
    assert [spelling(node) for node in traced.graph.nodes if node.op.startswith("call_")] == [
        "torch.fft.fft2",
        ".real",
        "conv",
        "operator.add",
        "torch.linalg.norm",
        "torch.special.expit",
        ".clamp()",
        "torch.cdist",
        "torch.nn.functional.gelu",
        "torch.ops.aten.gelu.default",
        "operator.add",
        "torch.relu",
    ]


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.FractionalMaxPool2d(2, output_size=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(torch.cdist(x, x))


def test_what_has_no_converter_is_called_so_too() -> None:
    found = {
        each.node: (each.target, each.reason) for each in fxlib.lowering.check(Pooled(), (torch.randn(1, 2, 8, 8),))
    }
    assert found == {
        "cdist": ("torch.cdist", "there is no converter for torch.cdist"),
        "pool": ("pool", "there is no converter for FractionalMaxPool2d"),
    }
