"""A judgement leaves the user's model and the random generators as they were."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest
import torch
from torch import nn

import fxlib
from fxlib.captures import judge, specify


class Writing(nn.Module):
    """Changes everything that a forward can change, when the model runs and when its program does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.array, self.queue, self.deep = np.zeros(2), collections.deque([0]), {"a": {"b": {"c": {"d": [0]}}}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.fc.weight.mul_(0.5)
            self.fc.bias.data.add_(1)
        self.array[0] += 1
        self.queue.append(1)
        self.deep["a"]["b"]["c"]["d"][0] += 1
        return self.fc(self.norm(x)) * (random.random() + np.random.rand())


def state(model: Writing):
    drawn = torch.rand(1), random.random(), np.random.rand()  # what comes next
    held = (
        model.array.tolist(),
        [*model.queue],
        repr(model.deep),
        {k: v.clone() for k, v in model.state_dict().items()},
    )
    return repr((drawn, held))


X = (torch.randn(8, 4),)
ASKED = {
    "judge": lambda model: judge(model, X, captures=("export", "compile", "shapes")),
    "specify": lambda model: specify(model, X),
    "diagnose": lambda model: fxlib.diagnose(model, X),
    "compare": lambda model: fxlib.compare(model, X),
}


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_of_the_model_changes(asked):
    found = []
    model = Writing()
    for ask in (lambda model: None, ASKED[asked]):
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(0)
        ask(model)
        found.append(state(model))
    assert found[0] == found[1]


@pytest.mark.parametrize("asked", ASKED)
def test_models_made_in_inference_mode(asked):
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
        ASKED[asked](model)
    ASKED[asked](model)


def test_autograd_does_not_take_a_diagnosis_for_a_write():
    class Decaying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.ones(4))
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.data.mul_(0.9)
            return self.fc(x) * self.seen

    model = Decaying()
    result = model(*X).sum()
    fxlib.diagnose(model, X)
    result.backward()


class Either(nn.Linear):
    def forward(self, x: torch.Tensor, flag: bool = True) -> torch.Tensor:
        return super().forward(x) if flag else super().forward(x) * 2


def test_further_inputs_are_all_run_and_those_that_the_model_rejects_are_named():
    model, other, rejected = Either(4, 4), (*X, False), (torch.randn(2, 5),)
    for at, more in ((2, [other, rejected]), (1, [rejected, other])):
        found = judge(model, X, more=more, captures=("compile",)).verdicts["compile"]
        assert found.outcome == "unknown" and f"number {at} of the further" in found.reason
    found = judge(model, X, more=[other], captures=("compile",))
    assert found.verdicts["compile"].outcome == "captured" and [each.code for each in found.findings] == ["FX622"]
