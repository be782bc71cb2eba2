"""Folders that a script makes where it begins are gone once it is executed, unless somebody relies on them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens.ipc import temporary
from fxlens.worker import made_folders
from lsp_client import Client

SCRIPT = """import os, time
import torch
from torch import nn

os.makedirs("runs/{name}", exist_ok=True)
time.sleep({seconds})


# fxlens: Net() <- torch.randn(2)
class Net(nn.Module):
    def forward(self, x):
        return x + 1
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the job that this process is, and a workspace as the current folder."""
    folder = tmp_path / f"{temporary.PREFIX}0" / "1"
    folder.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_empty_ones_are_removed_and_others_stay(job: Path):
    with made_folders.taken_away(os.getcwd()):
        os.makedirs("runs/a", exist_ok=True)
        os.makedirs("logs")
        os.makedirs("../beside")
        Path("logs", "text").touch()
    assert sorted(os.listdir()) == ["logs"] and os.path.isdir("../beside") and not os.listdir(job)


def test_a_process_without_a_folder_of_its_own_notes_nothing(job: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TMPDIR")
    with made_folders.taken_away(os.getcwd()):
        os.mkdir("runs")
        assert os.listdir() == ["runs"]
    assert os.listdir() == [] and os.path.exists(os.devnull)


def test_they_stay_while_another_program_runs_there(job: Path):
    with made_folders.taken_away(os.getcwd()):
        os.mkdir("checkpoints")
        training = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert os.listdir() == ["checkpoints"]
    finally:
        training.communicate(b"\n")


def test_what_a_process_of_ours_has_started_is_no_other_program(job: Path):
    """Such as a tracker of shared memory, or torch's compile workers."""
    starts = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()']))"
    ours = subprocess.Popen([sys.executable, "-uc", starts, "fxlens"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert ours.stdout is not None and ours.stdout.readline() == b"1\n"
        with made_folders.taken_away(os.getcwd()):
            os.mkdir("runs")
        assert os.listdir() == []
    finally:
        ours.communicate(b"\n")


def test_those_of_a_job_that_was_ended_are_removed_by_its_notes(job: Path):
    with made_folders.taken_away(os.getcwd()):
        os.makedirs("runs/a")
        kept = (job / ".made-folders").read_bytes()
        os.makedirs("runs/b")  # of the next job
    os.makedirs("runs/a")
    os.makedirs("runs/b")
    (job / ".made-folders").write_bytes(kept + os.fsencode(os.getcwd()) + b"\0" + b"/elsewhere\0cut")
    assert made_folders.remove(made_folders.noted_by(str(job))) == []
    assert os.listdir("runs") == ["b"]
    assert made_folders.noted_by("/no/such/job") == []


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_they_stay_while_another_job_executes_a_file_there(job: Path):
    """It may have asked for the same folder, and one between two steps of `os.makedirs` needs its parent."""
    with made_folders.taken_away(os.getcwd()):
        with made_folders.taken_away(os.getcwd()):
            os.makedirs("runs/a")
        os.makedirs("runs/a", exist_ok=True)
        noted = made_folders.noted_by(str(job))
        assert made_folders.remove(noted) == noted != [] and os.listdir("runs") == ["a"]
    assert os.listdir() == os.listdir(job) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere jobs are not forked")
def test_edits_that_cancel_traces_leave_nothing(client: Client, workspace: Path):
    path = workspace / "train.py"
    texts = [SCRIPT.format(name=number, seconds=60) for number in range(3)] + [SCRIPT.format(name=3, seconds=0.1)]
    path.write_text(texts[0])
    uri = client.open(path)
    for number, text in enumerate(texts[1:]):
        deadline = time.monotonic() + 60
        while not (client.root / "runs" / str(number)).exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        version = client.change(uri, text)
    assert client.diagnostics(uri, version) == []
    deadline = time.monotonic() + 30
    while [*(client.root / "runs").glob("*")]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no file is kept")
@pytest.mark.parametrize("imports", ["", "import networkx\n"])
def test_what_ends_a_kept_file_or_the_editor_while_it_is_executed_leaves_nothing(tmp_path: Path, imports: str):
    """In the zygote, or in a branch of it."""
    path, made = tmp_path / "train.py", tmp_path / "runs"
    text = imports + SCRIPT.format(name="a", seconds=1)
    path.write_text(text)

    def wait(there: bool) -> None:
        deadline = time.monotonic() + 60
        while made.exists() is not there:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with Client(tmp_path) as client:
        uri = client.open(path)
        assert client.diagnostics(uri) == []
        for number in (1, 2):  # the second one is executed in a branch
            wait(True)  # it is executed to be kept
            version = client.change(uri, "import re\n" * number + text)
            assert client.diagnostics(uri, version) == []
        wait(True)
        client.change(uri, text + "\n")
        time.sleep(0.2)
    wait(False)
