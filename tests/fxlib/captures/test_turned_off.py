"""torch.compile turned off: nothing is captured, which is not a verdict on the model."""

import subprocess
import sys

import torch
from torch import nn

from fxlib.captures import judge


class Net(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


class Same(nn.Module):
    def forward(self, x):
        return x


def said():
    verdicts = [judge(model, (torch.ones(3),), captures=("compile",)).verdicts["compile"] for model in (Net(), Same())]
    return [f"{each.outcome} {each.reason[:32]}" for each in verdicts]


OFF = ["unknown torch.compile is turned off here"] * 2


def test_an_option_turns_it_off():
    assert said() == ["parts ", "captured "]
    with torch._dynamo.config.patch(disable=True):
        assert said() == OFF


def test_a_stance_turns_it_off():
    with torch.compiler.set_stance("force_eager"):
        assert said() == OFF


def test_a_variable_turns_it_off(monkeypatch):
    """torch reads it when it is imported."""
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    program = f"import runpy; print(*runpy.run_path({__file__!r})['said'](), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == OFF, done.stderr
