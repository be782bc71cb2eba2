"""Processes that user code started and that outlived their worker.

On Linux the server and the command line inherit them, and end them after each worker's end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fxlens.ipc import processes

_LOOK = 0.01
_LOOKS = 1000

_adopting = False
_own: set[int] = set()
_starting = 0
_trackers_until = 0.0
"""The clock's time when trackers of shared memory are ended, too."""


def adopt() -> None:
    """Called once at the start of a program: this process then inherits the orphans of workers."""
    global _adopting
    _adopting = processes.adopt_orphans()


@contextmanager
def starting() -> Iterator[set[int]]:
    """For the start of a worker: no orphan is ended until its process is in the yielded set."""
    global _starting
    _starting += 1
    try:
        yield _own
    finally:
        _starting -= 1


async def end(ended: int) -> None:
    """Ends the children that this process inherited from a worker that has ``ended`` and from others: those have their
    own sessions. Workers and processes of their groups are left alone."""
    global _trackers_until
    _own.discard(ended)
    if not _adopting:
        return
    session = os.getsid(0)
    _trackers_until = time.monotonic() + processes.TRACKER_SECONDS
    for _ in range(_LOOKS):
        if _starting:
            await asyncio.sleep(_LOOK)
            continue
        inherited = [pid for pid in processes.children_of(os.getpid()) if _is_orphan(pid, session)]
        trackers = [pid for pid in inherited if processes.is_tracker(pid)] if time.monotonic() < _trackers_until else []
        gone = [processes.end(pid) for pid in inherited if pid not in trackers]
        if not any(gone) and not trackers:
            return
        await asyncio.sleep(_LOOK if trackers else 0)  # then the children of those that ended


def _is_orphan(pid: int, session: int) -> bool:
    try:
        return _own.isdisjoint((pid, os.getpgid(pid), os.getsid(pid))) and os.getsid(pid) != session
    except OSError:
        return False
