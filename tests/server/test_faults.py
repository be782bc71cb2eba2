"""User code that misbehaves, in real processes: one finding that says who and where, and life goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import gone, processes_with, settled

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
LINE = 12  # of what misbehaves, from 0


def faulty(statement: str) -> str:
    return HEAD.replace("MISBEHAVE", statement)


# statement, code, whether the line is known
IN_FORWARD = {
    "endless loop": ("while True: pass", "FX304", True),
    "endless loop in C": ("sum(iter(int, 1))", "FX304", True),
    "sleep": ("time.sleep(1000)", "FX304", True),
    "segmentation fault": ("ctypes.string_at(0)", "FX305", True),
    "abort": ("os.abort()", "FX305", True),
    "os._exit": ("os._exit(3)", "FX306", True),
    "sys.exit": ("sys.exit(5)", "FX306", True),
    "killed by a signal": ("os.kill(os.getpid(), signal.SIGKILL)", "FX305", False),
    "stopped by a signal": ("os.kill(os.getpid(), signal.SIGSTOP)", "FX304", False),
    "descriptors closed": ("os.closerange(3, 1024); time.sleep(0.1)", "FX305", False),
    "signals masked": (
        "signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals()); signal.alarm(1); time.sleep(99)",
        "FX304",
        True,
    ),
    "endless recursion": ("(lambda f: f(f))(lambda f: f(f))", "FX310", True),
    "child processes": ("os.fork() and os.fork() and os.fork(); time.sleep(99)", "FX304", True),
    "processes of their own session": ("os.fork() or os.setsid(); time.sleep(99)", "FX304", True),
}

# What does no harm to the trace must not disturb it: the class is traced.
HARMLESS = {
    "megabytes of output": "[print('x' * 1000) for _ in range(20000)]",
    "bytes on descriptor 1": "os.write(1, b'Content-Length: 5\\r\\n\\r\\nhello' * 1000)",
    "descriptor 1 closed": "os.close(1)",
    "descriptors 0 to 2 closed": "os.closerange(0, 3)",
    "standard input read": "sys.stdin.read()",
    "another folder": "os.chdir('/')",
    "default dtype changed": "torch.set_default_dtype(torch.float64)",
    "a thread left running": "threading.Thread(target=time.sleep, args=(99,)).start()",
    "sys.path emptied": "sys.path.clear()",
    "exception hook replaced": "sys.excepthook = sys.stdout = sys.stderr = None",
    "a child process left behind": "os.fork() or time.sleep(99)",
}


@pytest.fixture(scope="module")
def server(workspace: Path):
    with Client(workspace, settings={"deadline": 2.0}) as client:
        warm = client.open(workspace / "warm.py", MODEL)
        assert client.diagnostics(warm) == []
        yield client


def severe(diagnostics: list[dict]) -> list[dict]:
    return [each for each in diagnostics if each["severity"] <= 2]


@pytest.mark.parametrize("name", IN_FORWARD)
def test_fault_in_forward_is_one_finding_and_the_next_edit_works(server: Client, workspace: Path, name: str):
    statement, code, line_known = IN_FORWARD[name]
    uri = server.open(workspace / "faulty.py", faulty(statement))
    found = severe(server.diagnostics(uri))
    assert [each["code"] for each in found] == [code]
    assert "Bad" in found[0]["message"] or found[0]["data"]["target"] == "Bad"
    if line_known:
        assert found[0]["range"]["start"]["line"] == LINE
    record = server.request("fxlens/record", {"uri": uri})["record"]
    assert {target["name"]: target["status"] for target in record["targets"]}["Good"] == "traced"

    assert server.edit(uri, MODEL) == []
    assert server.request("fxlens/record", {"uri": uri})["record"]["targets"][0]["status"] == "traced"
    server.close(uri)
    server.diagnostics(uri)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_disturbs_the_process_does_not_disturb_the_protocol(server: Client, workspace: Path, name: str):
    uri = server.open(workspace / "odd.py", faulty(HARMLESS[name]))
    server.diagnostics(uri)
    record = server.request("fxlens/record", {"uri": uri})["record"]
    assert {target["name"]: target["status"] for target in record["targets"]} == {"Bad": "traced", "Good": "traced"}
    assert len(record["output"]) < 200_000
    assert server.edit(uri, MODEL) == []
    server.close(uri)
    server.diagnostics(uri)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("while True: pass", "FX304"),
        ("import sys; sys.exit(1)", "FX306"),
        ("import os; os._exit(1)", "FX306"),
        ("import ctypes; ctypes.string_at(0)", "FX305"),
        ("import no_such_module_here", "FX301"),
        ("1 / 0", "FX301"),
        ("def f(): f()\nf()", "FX310"),
    ],
)
def test_fault_at_import_names_the_line(server: Client, workspace: Path, statement: str, code: str):
    uri = server.open(workspace / "at_import.py", f"{MODEL}\n{statement}\n")
    found = severe(server.diagnostics(uri))
    assert [each["code"] for each in found] == [code]
    assert found[0]["range"]["start"]["line"] >= MODEL.count("\n") + 1
    assert server.edit(uri, MODEL) == []
    server.close(uri)
    server.diagnostics(uri)


def test_fault_in_constructor(server: Client, workspace: Path):
    text = faulty("pass").replace("self.linear = nn.Linear(4, 4)", "os._exit(3)")
    uri = server.open(workspace / "constructor.py", text)
    found = severe(server.diagnostics(uri))
    assert [each["code"] for each in found] == ["FX306"]
    assert found[0]["range"]["start"]["line"] == 8
    assert "constructed" in found[0]["message"] and "status 3" in found[0]["message"]
    server.close(uri)
    server.diagnostics(uri)


def test_memory_without_end(workspace: Path):
    text = faulty("held = [bytearray(b'x') * (1 << 22) for _ in iter(int, 1)]")
    with Client(workspace, settings={"deadline": 20, "memory": 400}) as server:
        uri = server.open(workspace / "memory.py", text)
        found = severe(server.diagnostics(uri))
        assert [each["code"] for each in found] == ["FX307"]
        assert "Bad" in found[0]["message"] and "400 MiB" in found[0]["message"]
        assert server.edit(uri, MODEL) == []


def test_fork_bomb(workspace: Path):
    with Client(workspace, settings={"deadline": 20}) as server:
        uri = server.open(workspace / "bomb.py", faulty("[os.fork() for _ in range(9)]; time.sleep(60)"))
        found = severe(server.diagnostics(uri))
        assert [each["code"] for each in found] == ["FX307"]
        assert "processes" in found[0]["message"]
        assert server.edit(uri, MODEL) == []
        server.close(uri)
        server.diagnostics(uri)
        assert len(settled(server.process.pid, 2)) <= 2  # the zygote and its spare


def test_other_files_are_served_while_one_hangs(workspace: Path):
    with Client(workspace, settings={"deadline": 100}) as server:
        quick = server.open(workspace / "quick.py", MODEL)
        server.diagnostics(quick)
        hanging = [server.open(workspace / f"hang{n}.py", faulty("while True: pass")) for n in range(3)]
        for n in range(3):
            assert server.edit(quick, MODEL + f"# {n}\n") == []
        told = [each["params"] for each in server.received if each.get("method") == "textDocument/publishDiagnostics"]
        assert not [each for each in told if each["uri"] in hanging]
        for uri in hanging:
            server.close(uri)


def test_an_edit_ends_the_hanging_job(workspace: Path):
    with Client(workspace, settings={"deadline": 1000, "lowering": "off"}) as server:
        server.diagnostics(server.open(workspace / "first.py", MODEL))
        uri = server.open(workspace / "edited.py", faulty("while True: pass"))
        time.sleep(1)
        assert server.edit(uri, MODEL) == []
        assert len(settled(server.process.pid, 2)) <= 2


def test_three_crashes_of_one_text_are_enough(server: Client, workspace: Path):
    uri = server.open(workspace / "crashing.py", faulty("ctypes.string_at(0)"))
    assert [each["code"] for each in severe(server.diagnostics(uri))] == ["FX305"]
    for _ in range(2):
        server.edit(uri, faulty("ctypes.string_at(0)"))
    found = severe(server.edit(uri, faulty("ctypes.string_at(0)")))
    assert [each["code"] for each in found] == ["FX305"] and "not traced again" in found[0]["message"]
    status = server.request("fxlens/debugInfo", {})["text"]
    assert '"leftAlone": true' in status
    assert server.edit(uri, MODEL) == []
    server.close(uri)
    server.diagnostics(uri)


@pytest.mark.parametrize("mode", ["fork", "spawn"])
def test_nothing_is_left_when_the_server_is_killed(tmp_path: Path, mode: str):
    settings = {"deadline": 60, "worker": mode}
    with Client(tmp_path, settings=settings, environment={"FXLENS_TEST_MARK": str(tmp_path)}) as server:
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
