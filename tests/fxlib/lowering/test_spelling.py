"""An operation is called in messages as people write it."""

from __future__ import annotations

import torch
from torch import nn

import fxlib
from fxlib.lowering.spelling import spelling


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(torch.fft.fft2(x).real) + x
        y = torch.special.expit(torch.linalg.norm(y)).clamp(1)
        return torch.relu(torch.ops.aten.gelu.default(torch.nn.functional.gelu(y)))


def test_operations_are_called_as_they_are_written() -> None:
    traced = fxlib.symbolic_trace(Net())
    assert [spelling(traced, node) for node in traced.graph.nodes if node.op.startswith("call_")] == [
        "torch.fft.fft2",
        ".real",
        "Conv2d",
        "operator.add",
        "torch.linalg.norm",
        "torch.special.expit",
        ".clamp()",
        "torch.nn.functional.gelu",
        "torch.ops.aten.gelu.default",
        "torch.relu",
    ]
