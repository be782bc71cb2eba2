"""``fxlens check`` in a folder of files, and a model with two problems for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from warm_python import warm_fxlens

BROKEN = """import torch
from torch import nn


# fxlens: Gate(4) <- torch.randn(2, 4)
class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        label = "naïve 🙂"; n = len(x)
        if x.sum() > 0:
            x = x * n
        return self.linear(x)
"""


def waits_for(file: Path) -> str:
    """Statements that end once the file is there."""
    return f"import os, time\nwhile not os.path.exists({str(file)!r}):\n    time.sleep(0.02)\n"


def fxlens(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    command = warm_fxlens(*arguments)
    environment.setdefault("XDG_CACHE_HOME", str(cwd / ".cache"))
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}, timeout=250
    )
