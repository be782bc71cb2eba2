"""Numbers that forward computes from sizes are those of the call, not those of the example."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxlib
from tests.fxlib.lowering.test_dynamic import agree


class Divided(nn.Module):
    """Quotients and remainders with either sign, rounded down as in Python; with the example, some are 0."""

    def forward(self, x):
        n = x.shape[0]
        whole = -(-n // 4) * 4
        return (
            F.pad(x, (0, 0, 0, whole - n)).reshape(-1, 4, x.shape[1]).sum(1) + 1,
            x[-n // 2 :] * 2,
            torch.arange(-(-n // 2)) + x.sum(),
            x.roll(-n // 2, 1) * 2,
            x[(5 - n) // 2 :] * 2,
            x + (n - 1) // -2 + (3 - n) // (n + 1) + (n - 5) % 3 + (n - 5) % -3 + (-7) // n,
            x.tril(-n // 2) + 1,
            F.layer_norm(x, x.shape[1:]) + F.layer_norm(x, (x.shape[-1],)),
        )


@pytest.mark.parametrize("capture", ["fx", "export"])
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "reference"])
def test_quotients_of_sizes_are_rounded_down(engine, capture):
    model = Divided().eval()
    example = (torch.randn(8, 4),)
    lowered = fxlib.lower(model, example, dynamic={"x": (0, 1)}, engine=engine, capture=capture, min_nodes=1)
    for rows in (8, 5, 2, 17):
        agree(lowered, model, torch.randn(rows, 4))


class Compared(nn.Module):
    """Comparisons of sizes, and a function of one, that become numbers."""

    def forward(self, x):
        n = x.shape[0]
        return x * 2 + (n > 10) * 3, x + (n == 5) * 2, x[: 4 + (n > 20) * 2] * 1, x * math.sqrt(n) + (n != 16)


def test_comparisons_of_sizes_are_numbers():
    model = Compared().eval()
    lowered = fxlib.lower(model, (torch.randn(16, 4),), dynamic=True, capture="fx", min_nodes=1)
    assert lowered.engine_parts() and {lowered.report.codes[name] for name in ("mul_1", "sqrt")} == {"FX402"}
    for rows in (16, 5, 30):
        agree(lowered, model, torch.randn(rows, 4))


class Kept(nn.Module):
    """A share of the rows, which torch.export takes for a constant."""

    def forward(self, x):
        return x[: int(x.shape[0] * 0.25)] * 2 + int(x.shape[1] / 2) + int(x.shape[1] ** 0.5)


def test_numbers_that_an_export_fixes_are_conditions():
    model = Kept().eval()
    lowered = fxlib.lower(model, (torch.randn(16, 8),), dynamic={"x": (0, 1)})
    root = "math.trunc(float(x.shape[1]) ** 0.5) == 2"
    assert {"math.trunc(0.25*float(x.shape[0])) == 4", "math.trunc(x.shape[1] / 2) == 4", root} <= {
        *lowered.report.conditions
    }
    agree(lowered, model, torch.randn(19, 8))
    for shape in ((40, 8), (16, 12)):
        with pytest.raises(ValueError, match=r"was captured for math\.trunc"):
            lowered(torch.randn(shape))


class Resized(nn.Module):
    def forward(self, x, y):
        exact = F.interpolate(x, size=y.shape[2:], mode="nearest-exact")
        return F.interpolate(x, size=y.shape[2:]) * 2 + exact, F.interpolate(x, scale_factor=1.3) + 1


def test_the_nearest_elements_are_those_of_torch():
    """As they are not by ONNX Runtime's own rounding."""
    model, dynamic = Resized().eval(), {"x": (2, 3), "y": (2, 3)}
    lowered = fxlib.lower(model, (torch.randn(1, 2, 8, 9), torch.randn(1, 1, 11, 12)), dynamic=dynamic, min_nodes=1)
    assert set(lowered.report.reasons) == {"interpolate_2"}
    for rows in (30, 54, 11):
        agree(lowered, model, torch.randn(1, 2, rows, 3), torch.randn(1, 1, rows * 7 // 5 + 1, 5))
