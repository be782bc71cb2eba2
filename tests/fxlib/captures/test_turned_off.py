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


{off}
for model in Net(), Same():
    verdict = judge(model, (torch.ones(3),), captures=("compile",)).verdicts["compile"]
    print(verdict.outcome, verdict.reason[:32])
"""


@pytest.mark.parametrize(
    ("off", "environment", "expected"),
    [
        ("", {}, ["parts ", "captured "]),
        ("", {"TORCHDYNAMO_DISABLE": "1"}, ["unknown torch.compile is turned off here"] * 2),
        (
            "import torch._dynamo; torch._dynamo.config.disable = True",
            {},
            ["unknown torch.compile is turned off here"] * 2,
        ),
        ('torch.compiler.set_stance("force_eager")', {}, ["unknown torch.compile is turned off here"] * 2),
    ],
)
def test_what_is_turned_off_captures_nothing(off, environment, expected, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    program = [sys.executable, "-c", PROGRAM.format(off=off)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == expected, done.stderr
