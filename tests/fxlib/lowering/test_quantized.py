"""The exchange form of a quantized model, with explicit quantize and dequantize, lowers whole and agrees with int8."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxlib
from fxlib.passes.quantize import quantize_static


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
