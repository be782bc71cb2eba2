"""In-place changes by forward are listed with their place, and rejected on request."""

from __future__ import annotations

import pytest
import torch

import fxlib
from fxlib.diagnosis import MutationError

from .snippets import load

NET = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.fc = nn.Linear(3, 3)
        self.act = nn.ReLU(inplace=True)
        self.calls = 0

    def forward(self, x):
        return {}
"""
# The expression: into what it writes, by the nodes that do, and the codes of the findings.
WRITES = {
    "x.add_(1)": ("`x`", "FX227"),
    "torch.relu_(x)": ("`x`", "FX227"),
    "F.relu(x, inplace=True)": ("`x`", "FX227"),
    "torch.add(x, 1, out=x)": ("`x`", "FX227"),
    "torch.ops.aten.fill_(x, 1.0)": ("`x`", "FX227"),
    "torch.ops.aten.add.out(x, x, out=x)": ("`x`", "FX227"),
    "self.act(x).view(-1).mul_(2)": ("`x` `x`", "FX227 FX227"),
    "self.mean.add_(x.mean(0))": ("`mean`", "FX227"),
    # What the trace itself does is one finding, and names no more than that.
    "self.mean.mul_(0.9).add_(x.mean(0))": ("`mean`", "FX210"),
    "self.act(self.fc(x))": ("the value `fc`", ""),
    "F.relu(x + 1, inplace=True)": ("the value `add`", ""),
    "self.fc(x) + 1": ("", ""),
}


def report(expression: str, folder):
    return fxlib.diagnose(load(NET.format(expression), folder).Net(), torch.ones(2, 3))


@pytest.mark.parametrize("expression", WRITES)
def test_every_write_is_listed(expression, tmp_path):
    found = report(expression, tmp_path)
    assert (" ".join(each.written for each in found.mutations), " ".join(found.codes())) == WRITES[expression]
    assert all(each.span is not None and each.span.line == 15 for each in found.mutations)
    if found.mutations:
        with pytest.raises(MutationError, match=r":15: \w+ writes into"):
            found.refuse_mutation()
    else:
        found.refuse_mutation()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("self.calls += 1", "FX208"),
        ("self.last = x", "FX209"),
        ("self.mean = x", "FX210"),
        ("x.data = x * 2", "FX211"),
        ("x += 1", "FX230"),
        ("x[0] = 1", "FX150"),
    ],
)
def test_writes_that_the_graph_does_not_hold_are_refused_too(body, code, tmp_path):
    text = NET.replace("        return {}", f"        {body}\n        return x * 2")
    found = fxlib.diagnose(load(text, tmp_path).Net(), torch.ones(2, 3))
    assert found.codes() == [code]
    with pytest.raises(MutationError, match=f":15: {code} "):
        found.refuse_mutation()


def test_a_matrix_product_makes_a_new_tensor_in_eager_too(tmp_path):
    text = NET.replace("        return {}", "        y = x\n        x @= x\n        return x * y")
    assert fxlib.diagnose(load(text, tmp_path).Net(), torch.ones(2, 2)).codes() == []
