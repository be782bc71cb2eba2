"""Importing this judges a small model with torch.export and torch.compile, which imports what they need.

The zygote for captures imports it, so that its forks start with everything imported.
"""

from __future__ import annotations

import traceback


def _judge_small() -> None:
    import torch

    from fxlens.worker import captured
    from fxlib.captures import judge, proof  # noqa: F401

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.linear(x)) + x
            if y.sum() > 0:
                y = y + 1
            return y.mean(-1)

    for each in judge(Small(), (torch.ones(2, 4),), captures=("export", "compile", "shapes")).verdicts.values():
        captured.verdict(each)


try:
    _judge_small()
except Exception:  # a torch without captures is reported for each model
    traceback.print_exc()
