"""A model that was prepared ahead is diagnosed in its current state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fxlib.diagnosis.diagnose import diagnose
from fxlib.diagnosis.engine import subject

X = torch.ones(2, 4)
SEEN: list[int] = []


def asks(x):
    return x * 2 if x.sum() > 0 else x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = 1.0
        self.seen = []

    def forward(self, x):
        return self.layer(x) * self.scale


def plain(self, x):
    return self.layer(x) + self.scale


def through_helper(self, x):
    return asks(self.layer(x)) * self.scale


def test_functions_may_do_something_else_by_then_and_name_others(monkeypatch):
    model = Net()
    for new, codes in ((plain, []), (through_helper, ["FX101"])):
        subject.prepare(model)
        monkeypatch.setattr(Net.forward, "__code__", new.__code__)
        report = diagnose(model, X)
        assert report.codes() == codes and report.traces is not bool(codes)


def writes(self, x):
    SEEN.append(1)
    self.layer.weight.data.mul_(2.0)
    return self.layer(x)


def test_what_other_functions_write_is_put_back(monkeypatch):
    model = Net()
    before = model.layer.weight.clone()
    subject.prepare(model)
    monkeypatch.setattr(Net.forward, "__code__", writes.__code__)
    found = [(each.code, each.message) for each in diagnose(model, X).findings]
    assert SEEN == [] and model.layer.weight.equal(before)
    assert found == [(each.code, each.message) for each in diagnose(model, X).findings] and found


def test_modules_are_not_looked_at_again_for_functions_that_name_others(monkeypatch):
    model = Net()
    subject.prepare(model)
    monkeypatch.setattr(Net.forward, "__code__", through_helper.__code__)
    monkeypatch.setattr(subject.reach, "reached", lambda *_: pytest.fail("looked at again"))
    assert diagnose(model, X).codes() == ["FX101"]


def test_what_has_changed_since_is_no_change_of_the_trace():
    model = Net()
    subject.prepare(model)
    model.scale, model.extra = 3.0, nn.ReLU()
    model.seen.append(1)
    model.layer.weight = nn.Parameter(torch.zeros(4, 4))
    torch.manual_seed(7)
    assert diagnose(model, X).codes() == []
    assert (model.scale, model.seen) == (3.0, [1]) and model.layer.weight.sum() == 0
    assert torch.initial_seed() == 7


def test_it_serves_one_diagnosis_of_the_same_kind():
    model = Net()
    subject.prepare(model, ["Linear"])
    assert diagnose(model, X).codes() == []
    model.scale = 5.0  # what was found out is not used for the next one
    assert diagnose(model, X).graph_module(X).equal(model(X))
