"""Checks of which a job did not come to its end: it is said, and the next check does not take what is there for all."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from check_command import fxlens
from fxlens.checking.cache import Cache
from fxlens.checking.checker import Options, Surroundings, check_files
from fxlens.config.settings import Settings
from fxlens.host.launch import Launch
from fxlens.host.outcome import Outcome, WorkerUnavailable
from fxlens.host.pool import Pool

BESIDE = """\
import os, signal, sys, time
import torch
from torch import nn


def is_beside():
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith("jobs/compare.py"):
        frame = frame.f_back
    return frame is not None


# fxlens: First() <- torch.randn(2, 3)
class First(nn.Module):
    def forward(self, x):
        return x / max(p.abs().max().item() for p in nn.Linear(3, 3, bias=False).parameters())


# fxlens: Net() <- torch.randn(2, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        if is_beside() and os.path.exists({marker!r}):
            {ends}

    def forward(self, x):
        return self.layer(x) / max(p.abs().max().item() for p in self.parameters())


# fxlens: Last() <- torch.randn(2, 3)
class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) * max(p.abs().max().item() for p in self.parameters())
"""
ENDS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "Net crashed the interpreter (SIGKILL) while running beside"),
    "ends": ("os._exit(0)", "Net ended the process with exit status 0 while running beside its graph"),
    "too slow": ("time.sleep(100)", "Net was stopped after 3 s while running beside its graph"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_comparison_that_ended_early_is_said_and_done_again(tmp_path: Path, name: str):
    ends, said = ENDS[name]
    (tmp_path / "work").mkdir()
    marker = tmp_path / "marker"  # not of the workspace, so that the cache does not know of it
    marker.touch()
    (tmp_path / "work" / "net.py").write_text(BESIDE.format(marker=str(marker), ends=ends))

    def found() -> tuple[list[str], str]:
        done = fxlens("check", "net.py", "--format", "json", "--deadline", "3", cwd=tmp_path / "work")
        findings = json.loads(done.stdout)["files"][0]["findings"]
        return [each["target"] for each in findings if each["code"] == "FX236"], done.stderr

    without, why = found()
    assert "Net" not in without and "Last" in without, "another model is compared anyway"
    assert said in why and "Net could not be run beside its graph" in why
    marker.unlink()
    for _ in range(2):
        names, why = found()
        assert {"Net", "Last"} <= {*names} and why == ""


MODEL = """\
import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) / max(p.abs().max().item() for p in self.parameters())


# fxlens: Gate() <- torch.randn(2, 3)
class Gate(nn.Module):
    def forward(self, x):
        return x * len(x)
"""


class Ending(Pool):
    """One for whose jobs of the kind ``without`` there is no worker."""

    without = ""

    async def run(self, message: Any, *arguments: Any, **options: Any) -> Outcome:
        if message["kind"] == self.without:
            raise WorkerUnavailable("no process can be started")
        return await super().run(message, *arguments, **options)


def test_a_record_that_lacks_the_results_of_a_job_is_not_kept(tmp_path: Path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)

    async def check(pool: Pool, cache: Cache) -> list[str]:
        options = Options(pool.launch, cache=cache, lowering=True, settings=Settings(captures=("fx", "export")))
        around = Surroundings()
        try:
            return [
                note async for each in check_files(pool, [str(path)], options, around) for note in each.record["notes"]
            ]
        finally:
            await around.close()

    async def all_kinds() -> None:
        pool = Ending(Launch(sys.executable, str(tmp_path)), once=True)
        try:
            for kind in ("verify", "compare", "captures", "lowering_hints"):
                Ending.without = kind
                cache = Cache(Launch(sys.executable), tmp_path / "cache")
                notes = await check(pool, cache)
                assert any("no process can be started" in note for note in notes), kind
                assert cache.hits == 0, kind
            Ending.without = ""
            for hits in (0, 1):
                cache = Cache(Launch(sys.executable), tmp_path / "cache")
                assert await check(pool, cache) == [] and cache.hits == hits
        finally:
            await pool.close()

    asyncio.run(all_kinds())
