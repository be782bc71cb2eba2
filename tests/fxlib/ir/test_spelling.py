"""An operation is called in messages as people write it."""

from __future__ import annotations

import functools
import math
import operator

import pytest
import torch
from torch import nn

import fxlib
import fxlib.lowering
from fxlib.ir.spelling import spelling, target_name


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(torch.fft.fft2(x).real) + x
        y = torch.special.expit(torch.linalg.norm(y)).clamp(1)
        return torch.relu(torch.logcumsumexp(y, 1) + torch.ops.aten.gelu.default(torch.nn.functional.gelu(y)))


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
        "torch.logcumsumexp",
        "torch.nn.functional.gelu",
        "torch.ops.aten.gelu.default",
        "operator.add",
        "torch.relu",
    ]


class Doubles:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("layer.0.conv", "layer.0.conv"),
        (torch.relu, "torch.relu"),
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (torch._C._nn.gelu, "torch.nn.functional.gelu"),
        (torch.Tensor.add, "torch.Tensor.add"),
        (getattr, "getattr"),
        (operator.getitem, "operator.getitem"),
        (math.floor, "math.floor"),
        (torch.ops.aten.add.Tensor, "torch.ops.aten.add.Tensor"),
        (nn.Linear.forward, "torch.nn.modules.linear.forward"),
        (lambda x: x, f"{__name__}.<lambda>"),
        (functools.partial(torch.relu), "functools.partial(<built-in method relu of type object>)"),
        (Doubles(), f"<{__name__}.Doubles object>"),
    ],
)
def test_names_of_targets(target: object, name: str) -> None:
    assert target_name(target) == name


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.FractionalMaxPool2d(2, output_size=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(torch.logcumsumexp(x, 1))


def test_what_has_no_converter_is_called_so_too() -> None:
    found = {
        each.node: (each.target, each.reason) for each in fxlib.lowering.check(Pooled(), (torch.randn(1, 2, 8, 8),))
    }
    assert found == {
        "logcumsumexp": ("torch.logcumsumexp", "there is no converter for torch.logcumsumexp"),
        "pool": ("pool", "there is no converter for FractionalMaxPool2d"),
    }
