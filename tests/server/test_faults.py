"""The effect of misbehaving user code on the rest of a session, and its leftovers; each fault alone is in
tests/faults."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import descendants, gone, processes_with

HEAD = """import ctypes, os, sys, time, signal, threading
import torch
from torch import nn


class Bad(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        MISBEHAVE
        return x


class Good(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


@pytest.fixture(scope="module", autouse=True)
def starts_are_warm() -> None:
    """They are real here: processes are found by what they were started with, or as descendants of the server."""


def faulty(statement: str) -> str:
    return HEAD.replace("MISBEHAVE", statement)


def severe(diagnostics: list[dict]) -> list[dict]:
    return [each for each in diagnostics if each["severity"] <= 2]


def test_other_files_are_served_while_one_hangs(shared: Client, folder: Path):
    with shared.lent(deadline=100) as server:
        quick = server.open(folder / "quick.py", MODEL)
        server.diagnostics(quick)
        hanging = [server.open(folder / f"hang{n}.py", faulty("while True: pass")) for n in range(3)]
        for n in range(3):
            assert server.edit(quick, MODEL + f"# {n}\n") == []
        told = [each["params"] for each in server.received if each.get("method") == "textDocument/publishDiagnostics"]
        assert not [each for each in told if each["uri"] in hanging]


def test_an_edit_ends_the_hanging_job(shared: Client, folder: Path):
    mark = folder / "process"
    hang = f"open({str(mark)!r}, 'w').write(str(os.getpid()))\n        while True: pass"
    with shared.lent(deadline=1000) as server:
        uri = server.open(folder / "edited.py", faulty(hang))
        while not (mark.exists() and mark.read_text()):
            time.sleep(0.02)
        assert server.edit(uri, MODEL) == []
    assert gone([int(mark.read_text())]) == []


def test_three_crashes_of_one_text_are_enough(client: Client, workspace: Path):
    uri = client.open(workspace / "crashing.py", faulty("ctypes.string_at(0)"))
    assert [each["code"] for each in severe(client.diagnostics(uri))] == ["FX305"]
    for _ in range(2):
        client.edit(uri, faulty("ctypes.string_at(0)"))
    found = severe(client.edit(uri, faulty("ctypes.string_at(0)")))
    assert [each["code"] for each in found] == ["FX305"] and "not traced again" in found[0]["message"]
    status = client.request("fxlens/debugInfo", {})["text"]
    assert '"leftAlone": true' in status
    assert client.edit(uri, MODEL) == []
    client.close(uri)
    client.diagnostics(uri)


@pytest.mark.parametrize("mode", ["fork", "spawn"])
def test_nothing_is_left_when_the_server_is_killed(tmp_path: Path, mode: str):
    settings = {"deadline": 60, "worker": mode}
    with Client(tmp_path, settings=settings, environment={"FXLENS_TEST_MARK": str(tmp_path)}, cold=True) as server:
        quick = server.open(tmp_path / "quick.py", MODEL)
        server.diagnostics(quick)
        server.open(tmp_path / "hang.py", faulty("os.fork() and os.fork(); sum(iter(int, 1))"))
        until = time.monotonic() + 60
        while len(pids := processes_with(str(tmp_path))) < 5:  # the server, the job and its children, a spare
            assert time.monotonic() < until
            time.sleep(0.2)
        server.kill()
        assert gone(pids) == []


def test_nothing_is_left_when_the_client_is_killed(tmp_path: Path):
    import subprocess
    import sys

    script = (
        "import sys, time; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from lsp_client import Client, MODEL\n"
        f"root = Path({str(tmp_path)!r})\n"
        "client = Client(root, settings={'deadline': 60}); client.initialize()\n"
        "uri = client.open(root / 'quick.py', MODEL); client.diagnostics(uri)\n"
        "client.open(root / 'hang.py', MODEL.replace('return torch', 'import time; time.sleep(500); return torch'))\n"
        "time.sleep(1); print('ready', flush=True); time.sleep(600)\n"
    )
    import os

    environment = {**os.environ, "FXLENS_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    assert process.stdout.readline() == b"ready\n"
    pids = [pid for pid in processes_with(str(tmp_path)) if pid != process.pid]
    assert len(pids) >= 3  # server, zygote, job
    process.kill()
    process.wait()
    process.stdout.close()
    assert gone(pids) == []


def test_a_task_that_cannot_be_cancelled_does_not_keep_a_server_whose_client_is_gone(tmp_path: Path):
    code = """import asyncio, sys
from fxlens.cli import main
async def stay():
    while True:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            pass
from fxlens.workspace.session import Session
before = Session.opened
Session.opened = lambda self, *given: (setattr(self, "stays", asyncio.ensure_future(stay())), before(self, *given))
sys.argv = ["fxlens", "serve"]
sys.exit(main())
"""
    server = Client(tmp_path, command=[sys.executable, "-c", code])
    server.initialize()
    server.open(tmp_path / "net.py", MODEL)
    server.request("fxlens/status", {})
    started = [server.pid, *descendants(server.pid)]
    server.process.stdin.close()
    assert server.process.wait(60) == 1
    assert gone(started) == []
