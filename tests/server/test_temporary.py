"""Folders for temporary files: which ones a start takes for abandoned, and which it leaves alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens.host.forked import ForkWorker
from fxlens.host.launch import Launch
from fxlens.ipc import temporary


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary._first.acquire(blocking=False)  # the first folder would start a sweep at any moment of a test
    return tmp_path


def aged(folder: Path) -> Path:
    os.utime(folder, (0, 0))
    return folder


def test_only_old_folders_of_ours_that_nobody_holds_are_swept(where: Path):
    held = aged(Path(temporary.make()))
    views = aged(Path(temporary.create(temporary.VIEWS)))
    fresh, other = where / "fxlens-jobs-fresh", where / "another-program"
    fresh.mkdir()
    other.mkdir()
    aged(other)
    link, file = where / "fxlens-jobs-link", where / "fxlens-jobs-file"
    link.symlink_to(other)
    file.touch()
    os.utime(file, (0, 0))
    left = where / "fxlens-jobs-left"
    (left / "3").mkdir(parents=True)
    (left / "3" / "keep").symlink_to(other)
    aged(left)
    killed, long_ago = where / "fxlens-record-killed", where / "fxlens-record-long-ago"
    for folder, age in ((killed, 86400), (long_ago, 86400 * 60)):
        folder.mkdir()
        os.utime(folder, (time.time() - age,) * 2)

    assert {*temporary.sweep(str(where))} == {str(left), str(long_ago)}
    assert {path.name for path in where.iterdir()} == {
        held.name, views.name, fresh.name, other.name, link.name, file.name,
        killed.name,
    }  # fmt: skip
    for folder in (held, views):
        temporary.remove(str(folder))
        assert not folder.exists()


def test_a_folder_is_held_until_its_process_is_killed(where: Path):
    package = Path(temporary.__file__).parents[2]
    code = (
        f"import sys, tempfile; sys.path.insert(0, {str(package)!r}); tempfile.tempdir = {str(where)!r}\n"
        "from fxlens.ipc import temporary\n"
        "print(temporary.make(), flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    folder = aged(Path(process.stdout.readline().decode().strip()))
    assert temporary.sweep(str(where)) == [] and folder.is_dir()
    process.kill()
    process.wait(60)
    process.stdin.close()
    process.stdout.close()
    aged(folder)
    assert temporary.sweep(str(where)) == [str(folder)] and not folder.exists()


def test_a_process_that_ends_leaves_no_folder(where: Path):
    package = Path(temporary.__file__).parents[2]
    code = (
        f"import sys, tempfile; sys.path.insert(0, {str(package)!r}); tempfile.tempdir = {str(where)!r}\n"
        "from fxlens.ipc import temporary\n"
        "for each in temporary.make(), temporary.create(temporary.VIEWS): open(each + '/file', 'w').close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert list(where.iterdir()) == []


def test_where_no_folder_can_be_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    assert temporary.make() == ""
    with pytest.raises(OSError):
        temporary.create(temporary.VIEWS)
    assert temporary.sweep("/proc/nowhere") == []


def test_a_worker_that_nobody_waits_for_any_more_leaves_no_folder(where: Path):
    """An edit, or the end of the server, cancels the job that had the interpreter started, at any moment of that."""

    async def start_and_cancel(turns: int) -> None:
        start = asyncio.create_task(ForkWorker(Launch(sys.executable, mode="fork")).start())
        for _ in range(turns):
            await asyncio.sleep(0)
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start

    for turns in (1, 2, 4):
        asyncio.run(start_and_cancel(turns))
        assert list(where.glob("fxlens-*")) == []


def test_a_folder_that_a_cleaner_has_removed_is_made_again_and_held(where: Path, monkeypatch: pytest.MonkeyPatch):
    folder = Path(temporary.of_job(temporary.make(), 3))
    monkeypatch.setenv("TMPDIR", str(folder))
    for _ in range(2):
        temporary.renew()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert temporary._locked(str(folder.parent)) is None
    folder.rmdir()
    folder.parent.rmdir()
    temporary.renew()
    assert folder.is_dir() and temporary._locked(str(folder.parent)) is None
    temporary.remove(str(folder.parent))
