"""The index's process dies: what asks waits for the next one, and without any no class is taken for one that nobody
captures."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from fxlens.checking.checker import Checked, Options, Surroundings, check_files
from fxlens.host.index_client import IndexClient
from fxlens.host.launch import Launch
from fxlens.host.pool import Pool

GATE = """import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x
"""
USE = "import torch\nfrom net import Gate\n\n\ndef go():\n    return torch.fx.symbolic_trace(Gate())\n"


class Dying(IndexClient):
    """Its first ``deaths`` processes are killed: at once, or with a ``question`` that they have not answered."""

    deaths = 0
    question = False

    async def start(self) -> None:
        await super().start()
        if self._starts <= self.deaths and not self.question:
            self._kill()

    def _send(self, message: dict[str, Any]) -> bool:
        if message["do"] == "answers" and self.question and self._starts <= self.deaths:
            self._kill()
        return super()._send(message)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)


def checked(folder: Path, python: str = sys.executable) -> Checked:
    async def run() -> Checked:
        pool, around = Pool(Launch(python, str(folder)), once=True), Surroundings()
        try:
            options = Options(pool.launch, verify=False)
            (found,) = [each async for each in check_files(pool, [str(folder / "net.py")], options, around)]
            return found
        finally:
            await pool.close()
            await around.close()

    return asyncio.run(run())


@pytest.mark.parametrize("question", [False, True], ids=["at its start", "at a question"])
@pytest.mark.parametrize("deaths", [0, 1, 9])
def test_an_error_stays_one_if_the_index_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, question: bool
):
    monkeypatch.setattr("fxlens.host.knowledge.IndexClient", Dying)
    monkeypatch.setattr(Dying, "deaths", deaths)
    monkeypatch.setattr(Dying, "question", question)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "net.py").write_text(GATE)
    (tmp_path / "use.py").write_text(USE)
    found = checked(tmp_path)
    assert [(each["code"], each["severity"]) for each in found.shown if each["code"] == "FX101"] == [("FX101", "error")]
    assert found.failed
    (target,) = found.record["targets"]
    if deaths > 1:
        (note,) = found.record["notes"]
        assert note.startswith(f"the index of {tmp_path} ended again and again, or cannot be started: ")
    else:
        assert found.record["notes"] == [] and target["role"] == "meant"


def test_an_error_stays_one_if_no_index_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "net.py").write_text(GATE)
    python = sys.executable
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    found = checked(tmp_path, python)
    assert found.failed and len(found.record["notes"]) == 1


def test_the_next_index_knows_the_texts_of_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "net.py").write_text(GATE)
    monkeypatch.setattr(Dying, "deaths", 0)

    async def run() -> list[dict[str, Any] | None]:
        client = Dying(str(tmp_path))
        await client.start()
        found = []
        try:
            client.update(str(tmp_path / "use.py"), USE)
            client.update(str(tmp_path / "other.py"), USE)
            found.append(await client.answers(str(tmp_path / "net.py")))
            client.update(str(tmp_path / "other.py"), None)
            client._kill()
            found.append(await client.answers(str(tmp_path / "net.py")))
            client.update(str(tmp_path / "use.py"), None)
            client._kill()
            found.append(await client.answers(str(tmp_path / "net.py")))
        finally:
            await client.close()
        return found

    captured = [each and bool(each["answers"]["Gate"]["captured"]) for each in asyncio.run(run())]
    assert captured == [True, True, False]
