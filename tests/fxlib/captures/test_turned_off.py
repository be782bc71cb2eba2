"""torch.compile where something turns it off: nothing is captured, and that is no verdict on the model."""

import subprocess
import sys

import pytest

PROGRAM = """
import torch
from torch import nn
from fxlib.captures import judge


class Net(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


class Same(nn.Module):
    def forward(self, x):
        return x


def say():
    for model in Net(), Same():
        verdict = judge(model, (torch.ones(3),), captures=("compile",)).verdicts["compile"]
        print(verdict.outcome, verdict.reason[:32])


say()
torch._dynamo.config.disable = True
say()
torch._dynamo.config.disable = False
torch.compiler.set_stance("force_eager")
say()
"""
OFF = ["unknown torch.compile is turned off here"] * 2


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, ["parts ", "captured ", *OFF, *OFF]), ({"TORCHDYNAMO_DISABLE": "1"}, [*OFF, *OFF, *OFF])],
)
def test_what_is_turned_off_captures_nothing(environment, expected, monkeypatch):
    """By a variable, by an option, by a stance."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == expected, done.stderr
