"""Weights of models that are compared: drawn once, and repeated."""

from __future__ import annotations

import torch
from torch import nn

from fxlib.diagnosis.fixes.filling import repeated_draws


def made() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleList([nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False), nn.Embedding(70_000, 8)])


def test_layers_of_one_shape_differ_and_the_next_model_is_the_same():
    with repeated_draws():
        first = made()
    with repeated_draws():
        second = made()
    one, other, table = (each.weight for each in first)
    assert not torch.equal(one, other)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert torch.unique(one, dim=0).shape[0] == 256
    assert one.abs().max() <= 1 / 16 and 0.9 < table.std() < 1.1


def test_what_is_small_or_has_a_generator_is_drawn_and_the_state_moves_on():
    torch.manual_seed(0)
    wanted = torch.empty(8).uniform_(), torch.empty(300, 300).normal_(generator=torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    with repeated_draws():
        got = torch.empty(8).uniform_(), torch.empty(300, 300).normal_(generator=torch.Generator().manual_seed(1))
    assert all(map(torch.equal, wanted, got))


def test_what_was_there_comes_back(monkeypatch):
    def mine(tensor, *args, **kwargs):
        return tensor

    monkeypatch.setattr(torch.Tensor, "uniform_", mine, raising=False)
    with repeated_draws(), repeated_draws():
        pass
    assert vars(torch.Tensor)["uniform_"] is mine and "normal_" not in vars(torch.Tensor)
