"""Leftovers of user code when its supervisors die, or when it prevents clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lsp_client
import pytest
from fxlens.ipc.trees import remove_tree
from processes import gone, processes_with

MARK = "fxlens-left-behind"
MODEL = """import ctypes, os, sys, time
import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {do}

    def forward(self, x):
        return x
"""
SLEEP = f'{sys.executable} -c "import time; time.sleep(300)"'
DAEMON = f"ctypes.CDLL(None).system(b'exec </dev/null >/dev/null 2>&1; {{own}} {SLEEP} {{mark}} &')"
"""Started by native code, since subprocess and os start nothing here."""
BOTH = f"{DAEMON.replace('{own}', 'setsid')}; {DAEMON.replace('{own}', '').replace('{mark}', '{other}')}"


def waited_for(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def start(*arguments: str, cwd: Path, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "fxlens", *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / ".cache"), **environment}
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


CASES = {
    "zygote killed": ("fork", "os.kill(os.getppid(), 9); time.sleep(300)"),
    "zygote stopped": ("fork", "os.kill(os.getppid(), 19); time.sleep(300)"),
    "a job that ends": ("fork", "pass"),
    "a job of its own process": ("spawn", "pass"),
}


@pytest.mark.parametrize("name", CASES)
def test_no_process_outlives_the_command(tmp_path: Path, name: str, report):
    """A constructor starts two, one of them in its own session."""
    kind, then = CASES[name]
    marks = [f"{MARK}-{os.getpid()}-{name.replace(' ', '-')}-{own}" for own in (True, False)]
    do = f"{BOTH.format(mark=marks[0], other=marks[1])}; {then}"
    (tmp_path / "net.py").write_text(MODEL.format(do=do))
    with start("check", "--quick", "--deadline", "2", "--worker", kind, "net.py", cwd=tmp_path) as program:
        for mark in marks:
            assert waited_for(lambda mark=mark: processes_with(mark) or program.poll() is not None, 120)
        out = program.communicate(timeout=120)[0]
    for mark in marks:
        assert waited_for(lambda mark=mark: not processes_with(mark)), (processes_with(mark), out)
    report(tries=2, outcome="none left")


@pytest.mark.parametrize(("command", "how"), [("estimate", None), ("lower", signal.SIGKILL)])
def test_no_process_outlives_a_job_on_one_model(tmp_path: Path, command: str, how: signal.Signals | None, report):
    """A daemon in a session of its own, of a constructor that then hangs."""
    mark = f"{MARK}-{os.getpid()}-{command}-{how}"
    daemon = DAEMON.format(mark=mark, own="setsid" if how is None else "")
    (tmp_path / "net.py").write_text(MODEL.format(do=f"{daemon}; time.sleep(300)"))
    more = ["--engine", "onnxruntime"] if command == "lower" else []
    with start(command, "net.py", *more, "--deadline", "100" if how else "2", cwd=tmp_path) as program:
        started = waited_for(lambda: processes_with(mark) or program.poll() is not None, 120)
        if how is not None:
            program.send_signal(how)
        out = program.communicate(timeout=120)[0]
    assert started
    assert waited_for(lambda: not processes_with(mark)), (processes_with(mark), out)
    report(outcome="none left")


HELD = "os.fork() or (os.setsid(), open('pid', 'w').write(str(os.getpid())), time.sleep(300)); "


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found only there")
@pytest.mark.parametrize("command", ["estimate net.py", "check --worker spawn --quick net.py"])
@pytest.mark.parametrize(
    ("then", "says"),
    [
        ("time.sleep(300)", b"was stopped after 2"),
        ("ctypes.string_at(0)", b"SIGSEGV"),
        ("os._exit(3)", b"exit status 3"),
    ],
    ids=["hangs", "crashes", "exits"],
)
def test_a_child_that_holds_the_channel_of_a_job_does_not_hold_it_up(
    tmp_path: Path, command: str, then: str, says: bytes, report
):
    """It was forked, and has left the job's session."""
    (tmp_path / "net.py").write_text(MODEL.format(do=HELD + then))
    with start(*command.split(), "--deadline", "2", cwd=tmp_path) as program:
        out = program.communicate(timeout=60)[0]
    assert says in out
    assert gone([int((tmp_path / "pid").read_text())]) == []
    report(outcome="ended as without it, none left")


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found only there")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_that_stops_its_group_ends_with_the_command(tmp_path: Path, how: signal.Signals, report):
    stops = "open('pid', 'w').write(str(os.getpid())); os.environ.get('FXLENS_NETWORK') or os.killpg(0, 19)"
    (tmp_path / "net.py").write_text(MODEL.format(do=stops))
    with start("estimate", "net.py", cwd=tmp_path, TMPDIR=str(tmp_path)) as program:
        assert waited_for(lambda: (tmp_path / "pid").exists(), 120)
        time.sleep(0.5)
        program.send_signal(how)
        program.wait(30)
        assert gone([int((tmp_path / "pid").read_text())]) == []
    assert waited_for(lambda: not [*tmp_path.glob("fxlens-jobs-*")], 10)
    report(outcome="none left")


FORKED_TWICE = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("pids", "a").write(f"{os.getpid()}\\n")
        time.sleep(300)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found only there")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, "exit", "close"], ids=str)
def test_no_process_outlives_a_result_that_waits_to_be_saved(tmp_path: Path, how: signal.Signals | str, report):
    """A daemon in a session of its own, which the file starts at its import and which holds its output. The server is
    ended without a request for it, or the document is closed."""
    (tmp_path / "net.py").write_text(FORKED_TWICE + lsp_client.MODEL)
    with lsp_client.Client(tmp_path, cold=True) as server:
        uri = server.open(tmp_path / "net.py")
        server.diagnostics(uri)
        assert "kept" in server.request("fxlens/pass", {"uri": uri, "target": "Net", "passes": ["fuse"]})
        daemons = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        if how == "close":
            server.close(uri)
        elif how == "exit":
            server.notify("exit", None)
        else:
            os.kill(server.pid, how)
        assert gone(daemons, 4.0) == []
    report(tries=len(daemons), outcome="none left")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_zygote_ends_with_the_command_while_it_imports(tmp_path: Path, how: signal.Signals, report):
    """The import of torch never ends; the command is killed meanwhile."""
    package, said = tmp_path / "path" / "torch", tmp_path / "pid"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"import os, time\nopen({str(said)!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    )
    (tmp_path / "net.py").write_text(MODEL.format(do="pass"))
    with start(
        "check",
        "net.py",
        cwd=tmp_path,
        PYTHONPATH=os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")]),
    ) as program:
        assert waited_for(lambda: said.exists() and said.read_text())
        zygote = int(said.read_text())
        program.send_signal(how)
        program.wait(30)
        assert gone([zygote]) == []
    report(outcome="ended with it")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it only there")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_interpreter_that_does_not_come_to_our_code_ends_with_the_command(
    tmp_path: Path, how: signal.Signals, report
):
    """As the wrapper of an environment may wait for something."""
    python, said = tmp_path / "python", tmp_path / "pid"
    python.write_text(f"#!/bin/sh\necho $$ >{said}\nexec sleep 300\n")
    python.chmod(0o755)
    (tmp_path / "net.py").write_text(MODEL.format(do="pass"))
    with start("check", "--python", str(python), "net.py", cwd=tmp_path) as program:
        assert waited_for(lambda: said.exists() and said.read_text())
        program.send_signal(how)
        program.wait(30)
        assert gone([int(said.read_text())]) == []
    report(outcome="ended with it")


@pytest.mark.usefixtures("warm")
def test_a_helper_of_a_running_job_is_not_taken_for_a_stray(tmp_path: Path, report):
    """One model works with a helper that was forked twice, while the jobs of other files end."""
    (tmp_path / "helped.py").write_text(
        MODEL.format(
            do="read, write = os.pipe()\n"
            "        if os.fork() == 0:\n"
            "            if os.fork() == 0:\n"
            "                time.sleep(4)\n"
            "                os.write(write, b'.')\n"
            "            os._exit(0)\n"
            "        os.wait()\n"
            "        os.close(write)\n"
            "        assert os.read(read, 1) == b'.', 'the helper was killed'"
        )
    )
    for number in range(6):
        (tmp_path / f"quick{number}.py").write_text(MODEL.format(do="pass"))
    with start("check", "--quick", "--jobs", "2", "--deadline", "20", ".", cwd=tmp_path) as program:
        out = program.communicate(timeout=200)[0].decode()
    assert program.returncode == 0 and "7 " in out and "FX301" not in out, out
    report(outcome="kept to the end of its job")


def test_what_makes_clearing_up_hard_is_cleared_up(tmp_path: Path, report):
    folder = tmp_path / "fxlens-jobs-deep"
    folder.mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    at = os.open(folder, os.O_RDONLY)
    for depth in range(1500):
        os.mkdir("deeper", dir_fd=at)
        os.symlink(tmp_path / "kept", "link", dir_fd=at)
        below = os.open("deeper", os.O_RDONLY, dir_fd=at)
        if depth % 100 == 0:
            os.fchmod(at, 0o500)
        os.close(at)
        at = below
    os.close(at)
    for name, mode in (("unreadable", 0), ("read-only", 0o500)):
        (folder / name / "inside").mkdir(parents=True)
        (folder / name / "inside" / "file").touch()
        (folder / name / "inside").chmod(mode)
        (folder / name).chmod(mode)
    removed = remove_tree(str(folder))
    while folder.exists() and not removed and not remove_tree(str(folder)):
        continue  # pytest could not remove it
    assert removed
    assert (tmp_path / "kept" / "file").exists()
    assert remove_tree(str(folder)), "what is gone is gone"
    report(tries=1502, outcome="removed")


@pytest.mark.usefixtures("warm")
def test_the_next_file_is_served_after_a_deep_folder(tmp_path: Path, report):
    (tmp_path / "deep.py").write_text(
        MODEL.format(
            do="import tempfile\n"
            "        os.chdir(tempfile.mkdtemp())\n"
            "        for _ in range(1500):\n"
            "            os.mkdir('d'); os.chdir('d')"
        )
    )
    (tmp_path / "net.py").write_text(MODEL.format(do="pass"))
    with start("check", "--quick", "--jobs", "1", "deep.py", "net.py", cwd=tmp_path) as program:
        out = program.communicate(timeout=200)[0].decode()
    assert program.returncode == 0 and "net.py" in out, out
    report(outcome="served")
