"""Removes folders that a script creates at its start, so that checking a repository leaves nothing in it.

They are noted in the folder of the job, too: if an edit cancels the job, the zygote removes them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from fxlens.ipc import temporary
from fxlens.sources.files import read_bytes
from fxlens.sources.paths import is_below, is_within

_NAME = ".made-folders"
_MOST = 1 << 16  # bytes of the notes of a job
_OURS = re.compile(rb"(?:^|[\0/])fxlens(?:\0|/worker/|$)|fxlens\.index")
"""In the command lines of our processes."""
_open = open  # user code may replace it


@contextlib.contextmanager
def taken_away(folder: str) -> Iterator[None]:
    """Remove folders that were created in ``folder`` meanwhile and are empty at the end, unless another program may be
    using them."""
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

    os.mkdir = noted
    try:
        yield
    finally:
        os.mkdir = mkdir
        _remove(made, folder)
        if own:
            with contextlib.suppress(OSError):
                os.unlink(notes)


def remove_those_of(job: str) -> None:
    """Removes what a job has noted in its folder, if it was ended before it could. What another job has made folders
    in meanwhile stays."""
    with contextlib.suppress(OSError):
        parts = read_bytes(os.path.join(job, _NAME), _MOST).split(b"\0")
        by_folder: dict[str, list[str]] = {}
        for within, path in zip(parts[::2], parts[1::2], strict=False):
            by_folder.setdefault(os.fsdecode(within), []).append(os.fsdecode(path))
        for folder, made in by_folder.items():
            _remove(made, folder)


def _remove(made: Iterable[str], folder: str) -> None:
    made = [path for path in made if is_within(path, [folder])]
    if not made or _others_run_in(folder):
        return
    for path in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(path)


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
