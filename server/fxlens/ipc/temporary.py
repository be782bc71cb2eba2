"""Folders for temporary files of user code, and for views. They are removed when the process that wrote them ends,
however it ends.

Used by both sides, so standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from .trees import remove_tree

PREFIX = "fxlens-jobs-"
VIEWS = "fxlens-views-"
RECORDS = "fxlens-record-"
_NEW_SECONDS = 60.0  # between the making of a folder and its lock nobody may take it for abandoned

_held: dict[str, int | None] = {}
"""The folders that this process has made and not removed, with the descriptors that hold their locks."""
_making = threading.RLock()
_first = threading.Lock()  # taken by the first folder that this process makes, and kept


def make() -> str:
    """A folder for jobs that only this user can enter; an empty string where none can be made: they then get none."""
    try:
        return create(PREFIX)
    except OSError:
        return ""


def create(prefix: str) -> str:
    """A folder that only this user can enter. The first call also starts a thread that removes folders that killed
    processes left."""
    folder = os.path.join(tempfile.gettempdir(), prefix + secrets.token_hex(8))
    with _making:
        _held[folder] = None  # before it is there: a signal may end the process at any moment
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            del _held[folder]
            raise
        _held[folder] = _locked(folder)
    if _first.acquire(blocking=False):
        threading.Thread(target=sweep, args=(os.path.dirname(folder),), daemon=True, name="fxlens-sweep").start()
    return folder


def ours(folder: str) -> str:
    """The folder, if it is one that ``make`` made; else an empty string."""
    return folder if os.path.basename(folder).startswith(PREFIX) else ""


def of_job(folder: str, job: int) -> str:
    return os.path.join(folder, str(job)) if folder else ""


def prepare(folder: str) -> None:
    """Makes the folder of a job, before its process: that can live a moment longer than who removes the folder."""
    with contextlib.suppress(OSError):
        if folder:
            os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)  # user code may have removed it with all in it
            os.mkdir(folder, 0o700)


def enter(folder: str) -> None:
    """Has this process and what it starts put its temporary files there, if it is there."""
    if not os.path.isdir(folder):
        return
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        tempfile.tempdir = None  # what it found before


def remove(folder: str, seconds: float = 60.0) -> None:
    """Removes the folder with all that is in it, where there is one; links are not followed."""
    if not folder:
        return
    remove_tree(folder, seconds)
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


def remove_all() -> None:
    """The last that a process does: removes the folders that it still has; from then on none can be made. What does not
    go at once is left to the workers in it: they remove their folder, too, when they see that this process went."""
    if os.getpid() == _owner:
        _making.acquire()
        for folder in list(_held):
            remove(folder, 1.0)


_owner = os.getpid()
atexit.register(remove_all)


def sweep(where: str) -> list[str]:
    """Removes the folders whose process was killed together with all that would have removed them; gives their paths.

    The process that made a folder holds a lock on it, which the system drops with the process.  Only this user's
    folders, and none that is reached by a link."""
    swept = []
    for folder in _abandoned(where):
        lock = _locked(folder)
        if lock is None:
            continue
        try:
            if remove_tree(folder):
                swept.append(folder)
        finally:
            os.close(lock)
    return swept


def _abandoned(where: str) -> Iterator[str]:
    """Folders that may be: ours by their names and their owner, and not made just now."""
    if not hasattr(os, "getuid"):
        return
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if entry.name.startswith((PREFIX, VIEWS, RECORDS)) and entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _NEW_SECONDS:
                    yield entry.path


def _locked(folder: str) -> int | None:
    """A descriptor that holds the lock of the folder; None where another process has it, or the system has none."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
