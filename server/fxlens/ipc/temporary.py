"""Folders for temporary files of user code, and for views. They are removed when their process ends, however it ends.

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
_NEW_SECONDS = 60.0  # a folder without a lock may be this new
_RECORD_SECONDS = 30 * 86400.0  # until then the next recording may take over what a killed one has noted

_held: dict[str, int | None] = {}
"""The folders that this process has created and not removed, with the descriptors of their locks."""
_making = threading.RLock()
_first = threading.Lock()  # acquired for the first folder of this process, and kept


def make() -> str:
    """A folder for jobs that only this user can enter; empty if none can be created."""
    try:
        return create(PREFIX)
    except OSError:
        return ""


def create(prefix: str) -> str:
    """A folder as of `held`. The first call also starts a thread that removes the folders of killed processes."""
    folder = held(prefix)
    if _first.acquire(blocking=False):
        threading.Thread(target=sweep, args=(os.path.dirname(folder),), daemon=True, name="fxlens-sweep").start()
    return folder


def held(prefix: str) -> str:
    """A folder that only this user can enter, and that is removed when this process ends."""
    folder = os.path.join(tempfile.gettempdir(), prefix + secrets.token_hex(8))
    with _making:
        _held[folder] = None  # before it exists, since a signal may end the process at any time
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            del _held[folder]
            raise
        _held[folder] = _locked(folder)
    return folder


def ours(folder: str) -> str:
    """The folder, if ``make`` created it; otherwise an empty string."""
    return folder if os.path.basename(folder).startswith(PREFIX) else ""


def of_job(folder: str, job: int) -> str:
    return os.path.join(folder, str(job)) if folder else ""


def prepare(folder: str) -> None:
    """Creates the folder of a job before its process, which may live a moment longer than the remover of the folder."""
    with contextlib.suppress(OSError):
        if folder:
            parent = os.path.dirname(folder)
            if not os.path.isdir(parent):  # user code, or a cleaner of temporary files, has removed it
                os.mkdir(parent, 0o700)
                _held[parent] = _locked(parent)
            os.mkdir(folder, 0o700)


def renew() -> None:
    """Creates the folder of this process again, if it was removed while the process waited for its job."""
    if folder := of_process():
        prepare(folder)


def enter(folder: str) -> None:
    """Makes this process and its children put temporary files there, if it exists."""
    if not os.path.isdir(folder):
        return
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        tempfile.tempdir = None  # forget the cached folder


def of_process() -> str:
    """The folder that this process has entered; empty if it has none."""
    folder = os.environ.get("TMPDIR", "")
    return folder if PREFIX in folder else ""


def remove(folder: str, seconds: float = 60.0) -> None:
    """Removes the folder with all that is in it, if it exists; links are not followed."""
    if not folder:
        return
    remove_tree(folder, seconds)
    leave(folder)


def leave(folder: str) -> None:
    """Leaves the folder to the next process that looks for those `of_killed` ones."""
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


def remove_all() -> None:
    """The last action of a process: removes its remaining folders; none can be created afterwards. Files that cannot be
    removed at once are left to the workers, which also remove their folder when this process ends."""
    if os.getpid() == _owner:
        _making.acquire()
        for folder in list(_held):
            remove(folder, 1.0)


_owner = os.getpid()
atexit.register(remove_all)


def sweep(where: str) -> list[str]:
    """Removes the folders of processes that were killed together with everything that would have removed them; returns
    their paths.

    The process that made a folder holds a lock on it, which the system drops with the process.  Only this user's
    folders, and none reached by a link."""
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


def of_killed(prefix: str, name: str) -> Iterator[str]:
    """The folders of killed processes with a file of this name, which they wrote once the folder was locked. Each is
    locked until the next one."""
    for folder in _ours_in(tempfile.gettempdir(), (prefix,)):
        if os.path.isfile(os.path.join(folder, name)) and (lock := _locked(folder)) is not None:
            try:
                yield folder
            finally:
                os.close(lock)


def _abandoned(where: str) -> Iterator[str]:
    """Folders that may be abandoned, since they are not new."""
    for folder in _ours_in(where, (PREFIX, VIEWS, RECORDS)):
        least = _RECORD_SECONDS if os.path.basename(folder).startswith(RECORDS) else _NEW_SECONDS
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(folder).st_mtime > least:
                yield folder


def _ours_in(where: str, prefixes: tuple[str, ...]) -> Iterator[str]:
    """Folders that are ours by name and owner."""
    if not hasattr(os, "getuid"):
        return
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            ours = entry.name.startswith(prefixes) and entry.is_dir(follow_symlinks=False)
            if ours and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                yield entry.path


def _locked(folder: str) -> int | None:
    """A descriptor that holds the lock of the folder; None if another process has it, or the system has no locks."""
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
