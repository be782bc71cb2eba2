"""Results of leaves and random functions of which little is known."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

import fxlib

COUNT: dict[str, int] = {}


class Parts(nn.Module):
    """A leaf whose result has attributes of its own."""

    def forward(self, x):
        return SimpleNamespace(logits=x * int((x > 0).sum()))


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.AdaptiveLogSoftmaxWithLoss(4, 20, [5, 10])
        self.parts, self.fc = Parts(), nn.Linear(4, 4)

    def forward(self, x, y):
        return self.head(x, y).loss + self.parts(x).logits


class Misspelt(Loss):
    def forward(self, x, y):
        return self.fc(x).logits


def test_a_leaf_may_return_what_is_no_tensor():
    for inputs in (None, (torch.randn(2, 4), torch.tensor([1, 2]))):
        assert fxlib.diagnose(Loss(), inputs, leaf_modules=["Parts"]).codes() == []
        assert fxlib.diagnose(Misspelt(), inputs).codes() == ["FX217"]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(4))

    def forward(self, x):
        COUNT["n"] = COUNT.get("n", 0) + 1
        return x * F.dropout(self.table, 0.5) * COUNT["n"]


class Noisy(Counting):
    def forward(self, x):
        return x + torch.randn_like(self.table)


def test_a_draw_without_a_place_hides_no_change_of_state():
    assert {"FX206", "FX208"} <= {*fxlib.diagnose(Counting(), torch.randn(2, 4)).codes()}
    assert COUNT == {}


def test_a_draw_like_a_buffer_has_its_place():
    (found,) = fxlib.diagnose(Noisy(), torch.randn(2, 4)).findings
    assert found.code == "FX206" and "randn_like(self.table)" in found.message and found.span is not None
