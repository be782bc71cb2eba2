"""Recording: neither the results of a long run nor concurrent writes are lost, and it ends with its command."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens.recording import run
from fxlens.recording.agent import journal
from fxlens.sources import recorded
from fxlens.sources.recorded import Example
from processes import gone

FOUND = {"net.py::Net": [Example("Net(3)", evaluation=["torch.randn(2, 3)"])]}
OTHER = '[["other.py::Other"]]\nconstruct = "Other(77)"\n'


def folder_with(tmp_path: Path) -> Path:
    for name in ("net", "other"):
        (tmp_path / f"{name}.py").write_text(f"class {name.title()}:\n    def __init__(self, n): ...\n")
    return tmp_path / recorded.NAME


def test_what_others_write_during_a_run_is_kept(tmp_path: Path, report):
    path = folder_with(tmp_path)
    real = tmp_path / "real.toml"
    real.write_text(OTHER)
    real.chmod(0o640)
    path.symlink_to(real)
    run.save(str(path), FOUND, str(tmp_path))
    assert path.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert set(recorded.parse(real.read_text())) == {"net.py::Net", "other.py::Other"}
    report(outcome="merged; a link stays a link")


COPYING = """import copy, gc, pickle, weakref
import torch


class Net(torch.nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.layer = torch.nn.Linear(n, n)

    def forward(self, x):
        return self.layer(x)


net = Net()
for make in (copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))):
    made = make(net)
    known = weakref.ref(made)
    del made
    gc.collect()
    print(known() is None)
"""


def test_copies_do_not_live_longer_for_being_recorded(tmp_path: Path, report):
    """A copy kept alive would hold the memory of a whole model."""
    (tmp_path / "program.py").write_text(COPYING)
    command = [sys.executable, "-m", "fxlens", "record", "--folder", str(tmp_path), "--", sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\nTrue\n", done
    report(tries=2, outcome="freed as without")


DAMAGED = {
    "no TOML": "[[[",
    "another form": '"a::b" = [3]\n',
    "nested deep": "a = " + "[" * 20_000,
    "a folder": None,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_recording_is_kept_where_its_file_cannot_be_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, report
):
    monkeypatch.setattr(run.tempfile, "tempdir", str(tmp_path))
    path = folder_with(tmp_path)
    text = DAMAGED[name]
    path.mkdir() if text is None else path.write_text(text)
    with pytest.raises(ValueError, match="What was recorded is in") as raised:
        run.save(str(path), FOUND, str(tmp_path))
    other = Path(str(raised.value).rpartition(" in ")[2])
    assert recorded.parse(other.read_text()) == FOUND
    assert text is None or path.read_text() == text
    report(outcome="kept in another file, which is named")


def notebook(text: str, picture: str = "") -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": text, "outputs": [picture]}]})


CLASS = "class Other:\n    def __init__(self, n): ...\n"
UNREADABLE = {
    "half-typed": ("other.py", CLASS + "def f(:\n"),
    "a byte-order mark": ("other.py", "\ufeff" + CLASS),
    "no UTF-8": ("other.py", CLASS + "# \udcff\n"),
    "a notebook with pictures": ("other.ipynb", notebook(CLASS, "A" * (11 << 20))),
    "a half-typed cell": ("other.ipynb", notebook(CLASS + "def f(:\n")),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_known_of_a_file_that_cannot_be_read_now_is_kept(tmp_path: Path, name: str, report):
    path = folder_with(tmp_path)
    file, text = UNREADABLE[name]
    (tmp_path / file).write_text(text, errors="surrogateescape")
    path.write_text(OTHER.replace("other.py", file))
    assert run.save(str(path), FOUND, str(tmp_path)) == []
    assert set(recorded.parse(path.read_text())) == {"net.py::Net", f"{file}::Other"}
    (tmp_path / file).unlink()
    assert "the file is gone" in run.save(str(path), FOUND, str(tmp_path))[0]
    report(outcome="kept until the file is gone")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError])
def test_what_could_not_be_saved_is_saved_by_the_next_one(
    tmp_path: Path, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, report
):
    """Ctrl+C between the program's end and the writing of its examples, and a disk that is full."""
    monkeypatch.setattr(run.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "net.py").write_text(MODEL)
    program = [sys.executable, "-c", "import net, torch; net.Net()(torch.ones(2, 4))"]
    monkeypatch.chdir(tmp_path)

    def save(*_: object) -> list[str]:
        raise raised

    with monkeypatch.context() as fault, pytest.raises(raised):
        fault.setattr(run, "save", save)
        run.record(program, ".", recorded.NAME)
    assert "the next recording with this folder and file saves what was noted" in capfd.readouterr().err
    assert "1 class saved that" in run.record(["true"], ".", recorded.NAME).notes[0]
    assert "torch.randn(2, 4)" in (tmp_path / recorded.NAME).read_text() and not list(tmp_path.glob("fxlens-record-*"))
    report(outcome="saved by the next one, as it says")


def test_no_other_file_is_replaced_without_being_asked(tmp_path: Path, report):
    for name, text in (("__init__.py", ""), ("notes.toml", "# mine\n"), ("pyproject.toml", "[project]\nname = 'x'\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError):
            run.record(["false"], str(tmp_path), str(tmp_path / name))
    run.record(["false"], str(tmp_path), str(tmp_path / "notes.toml"), force=True)
    report(tries=4, outcome="refused; --force allows it")


def test_a_journal_that_the_program_wrote_itself(tmp_path: Path, report):
    facts = [{"event": "called"}, {"event": "constructed", "file": 3}, [1], {"event": "constructed", "file": "/x.py",
             "name": "X", "construct": "X(", "imports": [1], "missing": []}]  # fmt: skip
    (tmp_path / "1.jsonl").write_text("\n".join([*map(json.dumps, facts), "[" * 100_000, "{", "\0"]))
    os.mkfifo(tmp_path / "2.jsonl")
    (tmp_path / "3.jsonl").mkdir()
    assert recorded.from_facts(journal.read(str(tmp_path)), str(tmp_path)) == {}
    with open(tmp_path / "4.jsonl", "w") as file:
        file.truncate(1 << 34)
    assert journal.read(str(tmp_path)) == [each for each in facts if isinstance(each, dict)]
    assert journal.read(str(tmp_path / "gone")) == []
    removing = "import os, shutil; shutil.rmtree(os.environ['FXLENS_RECORD_JOURNALS'])"
    assert run.record([sys.executable, "-c", removing], str(tmp_path), str(tmp_path / "examples.toml")).removed
    report(tries=11, outcome="left out")


PROGRAM = """import os, signal, sys, time
sys.path.insert(0, {folder!r})
import net, torch
net.Net()(torch.ones(2, 4))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
open("ready", "w").write(str(os.getpid()))
time.sleep(300)
"""
MODEL = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_ends_with_its_recording(tmp_path: Path, how: signal.Signals, report):
    (tmp_path / "net.py").write_text(MODEL)
    ready, temporary = tmp_path / "ready", tmp_path / "temporary"
    temporary.mkdir()
    program = PROGRAM.format(folder=str(tmp_path))
    command = [sys.executable, "-m", "fxlens", "record", "--", sys.executable, "-c", program]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 100
        while not (ready.exists() and ready.read_text()):
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(how)
        process.wait(60)
    assert gone([int(ready.read_text())]) == []
    if how == signal.SIGKILL:  # the next one saves what it has noted
        assert not (tmp_path / recorded.NAME).exists()
        again = [*command[: command.index("--") + 1], sys.executable, "-c", ""]
        done = subprocess.run(again, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert "1 class saved that a recording had noted before it was killed" in done.stderr
    assert "torch.randn(2, 4)" in (tmp_path / recorded.NAME).read_text() and not list(temporary.iterdir())
    report(outcome="ended with it, what it saw is kept")


INTERRUPTED = """import signal, time
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(time.monotonic()))
open("ready", "w").close()
while len(told) < {times}:
    time.sleep(0.01)
time.sleep(0.5)
open("told", "w").write(str(len(told)))
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_an_interrupt_comes_once_and_nothing_is_killed(tmp_path: Path, terminal: bool, report):
    (tmp_path / "program.py").write_text(INTERRUPTED.format(times=1 if terminal else 2))
    command = [sys.executable, "-m", "fxlens", "record", "--", sys.executable, "program.py"]
    pid, master = pty.fork() if terminal else (0, -1)
    if terminal and not pid:
        os.chdir(tmp_path)
        os.execv(command[0], command)
    process = None if terminal else subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    if process is None:
        os.write(master, b"\x03")
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(master)
    else:  # to this process alone
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        status = process.wait(60)
    assert (status, (tmp_path / "told").read_text()) == (0, "1" if terminal else "2")
    report(outcome="passed on where the terminal does not")


OF_PYTEST = """import os, signal, sys, tempfile
import net, torch
from fxlens.ipc import temporary


def test_killed():
    journals = os.environ["FXLENS_RECORD_JOURNALS"]
    os.utime(journals, (0, 0))
    assert temporary.sweep(os.path.dirname(journals)) == []
    net.Net()(torch.ones(2, 4))
    os.kill(os.getpid(), signal.SIGKILL)


def test_nothing():
    pass
"""


def test_tests_that_are_killed(tmp_path: Path, report):
    """The folder of a long run is not taken for an abandoned one; the next run saves what a killed one has noted."""
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "test_net.py").write_text(OF_PYTEST)
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", "."]
    command += ["-p", "fxlens.recording.pytest_plugin", "--fxlens-record", "test_net.py", "-k"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    killed, done = (
        subprocess.run([*command, name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        for name in ("killed", "nothing")
    )
    assert killed.returncode == -signal.SIGKILL, killed
    assert "1 class saved that" in done.stdout and "nothing recorded: no module" in done.stdout, done
    assert "torch.randn(2, 4)" in (tmp_path / recorded.NAME).read_text()
    assert not list((tmp_path / "temporary").iterdir())
    report(tries=2, outcome="saved by the next run")
