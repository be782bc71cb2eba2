"""Removes folders that a script creates at its start, so that checking a repository leaves nothing in it.

A script that has asked for a folder, as ``os.makedirs("runs", exist_ok=True)`` does, relies on it. So a workspace's
folder is locked (shared) while a file of it is executed, and they are removed only by who can lock it alone. They are
noted in the folder of the job, too: the zygote removes them if the job could not, or was cancelled by an edit.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from fxlens.ipc import temporary
from fxlens.sources.files import read_bytes
from fxlens.sources.paths import is_below, is_within

from . import isolation

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NAME = ".made-folders"
_MOST = 1 << 16  # bytes of the notes of a job
_REMOVING = 0.5  # seconds that removing may take
_OURS = re.compile(rb"(?:^|[\0/])fxlens(?:\0|/worker/|$)|fxlens\.index")
"""In the command lines of our processes."""
_open = open  # user code may replace it


@contextlib.contextmanager
def taken_away(folder: str) -> Iterator[None]:
    """Remove folders that were created in ``folder`` meanwhile and are empty at the end, unless another program, or
    another job, may be using them."""
    made: list[str] = []
    mkdir = os.mkdir
    own = temporary.of_process()
    notes = os.path.join(own, _NAME) if own else os.devnull

    def noted(path: Any, *args: Any, **kwargs: Any) -> None:
        mkdir(path, *args, **kwargs)
        if kwargs.get("dir_fd") is None and is_within(full := os.path.abspath(os.fsdecode(path)), [folder]):
            made.append(full)
            with contextlib.suppress(OSError), _open(notes, "ab") as file:
                file.write(b"".join(os.fsencode(each) + b"\0" for each in (folder, full)))

    try:
        with _locked(folder, alone=False):
            os.mkdir = noted
            try:
                yield
            finally:
                os.mkdir = mkdir
    finally:
        if not remove(noted_by(own) if own else [(folder, path) for path in made]) and own:
            with contextlib.suppress(OSError):
                os.unlink(notes)


def noted_by(job: str) -> list[tuple[str, str]]:
    """What a job has noted in its folder, each with its workspace: it was ended before it could remove them, or others
    were executed there."""
    try:
        parts = [*map(os.fsdecode, read_bytes(os.path.join(job, _NAME), _MOST).split(b"\0"))]
    except OSError:
        return []
    return [pair for pair in zip(parts[::2], parts[1::2], strict=False) if is_within(pair[1], pair[:1])]


def noted_below(parent: str) -> list[tuple[str, str]]:
    """What the jobs of a zygote have noted in the folders below its own."""
    try:
        jobs = os.listdir(parent)
    except OSError:
        return []
    return [pair for job in jobs for pair in noted_by(os.path.join(parent, job))]


def remove(made: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Remove these folders, each given with its workspace, where they are empty. Returns those of workspaces in which a
    file is executed now."""
    left = []
    for folder in dict(made):
        own = [pair for pair in made if pair[0] == folder]
        with _locked(folder, alone=True) as alone:
            if not alone:
                left += own
            elif not _others_run_in(folder):
                for _, path in reversed(own):
                    with contextlib.suppress(OSError):
                        os.rmdir(path)
    return left


@contextlib.contextmanager
def _locked(folder: str, alone: bool) -> Iterator[bool]:
    """Lock a workspace for executing its files, or ``alone`` for removing what those have made. Gives False if that is
    not possible now."""
    if fcntl is None:
        yield True
        return
    try:
        opened = os.open(folder, os.O_RDONLY)
        number = isolation.private(opened)
        os.close(opened)
    except OSError:
        yield True
        return
    try:
        until = time.monotonic() + (0 if alone else _REMOVING)
        while not (got := _lock(number, alone)) and time.monotonic() < until:
            time.sleep(0.001)
        yield got
    finally:
        with contextlib.suppress(OSError):  # user code has closed it
            os.close(number)


def _lock(number: int, alone: bool) -> bool:
    try:
        fcntl.flock(number, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _others_run_in(folder: str) -> bool:
    """Whether a Python program that is none of ours runs in this folder, or a folder below it. If it has asked for the
    same folder in the meantime, as ``os.makedirs("checkpoints", exist_ok=True)`` does, it relies on it."""
    try:
        processes = {each for each in os.listdir("/proc") if each.isdigit()} - {str(os.getpid())}
    except OSError:
        return True  # unknown
    folder = os.path.realpath(folder)
    for each in processes:
        with contextlib.suppress(OSError):
            if not is_below(os.readlink(f"/proc/{each}/cwd"), folder):
                continue
            if "python" in os.path.basename(os.readlink(f"/proc/{each}/exe")) and not _is_ours(int(each)):
                return True
    return False


def _is_ours(pid: int) -> bool:
    """Whether this is a process of FX Lens, or one that such a process has started, except programs that are
    recorded."""
    while pid > 1:
        with _open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(_MOST)
        if _OURS.search(command):
            return b"\0record\0" not in command
        with _open(f"/proc/{pid}/stat", "rb") as file:
            pid = int(file.read().rpartition(b")")[2].split()[1])
    return False
