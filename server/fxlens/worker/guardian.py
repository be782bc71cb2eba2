"""Ends a job's processes once the server has ended, if there is no zygote to do it.

A thread of the job could not, since C code that never returns blocks all other threads. So a small process waits,
forked before torch is imported, when there are no other threads. It belongs to the job's session, and not to its
group, which user code may stop; it ends after the job, whose end closes the lifeline, too.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable

_ENDS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM")


def during_import(control: int, folder: str) -> int:
    """Forks a process that kills this one and removes ``folder`` once the other end of the socket ``control`` closes;
    returns its process id, for `dismiss`. It reads nothing from the socket."""
    watched = os.getpid()
    guard = os.fork()
    if guard:
        return guard
    try:
        for name in _ENDS:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        poll = select.poll()
        poll.register(control, 0)
        while os.getppid() == watched:
            if poll.poll(500):
                from fxlens.ipc import temporary

                os.kill(watched, signal.SIGKILL)
                temporary.remove(temporary.ours(folder))
                break
    finally:
        os._exit(0)


def dismiss(guard: int) -> None:
    """Ends the process of `during_import`, since this one now notices the server's end itself."""
    os.kill(guard, signal.SIGKILL)
    os.waitpid(guard, 0)


def start(lifeline: int, folder: str, others: Iterable[int]) -> None:
    """Forks a process that waits until the other end of ``lifeline`` is closed, then kills what is below this one and
    its group, and removes ``folder``. ``others`` are descriptors that it must close.

    It is not a child of this process, so that user code that waits for children does not see it."""
    job = os.getpid()
    between = os.fork()
    if between:
        os.close(lifeline)
        os.waitpid(between, 0)
        return
    try:
        if os.fork() == 0:
            _guard(job, lifeline, folder, others)
    finally:
        os._exit(0)


def _guard(job: int, lifeline: int, folder: str, others: Iterable[int]) -> None:
    os.setpgid(0, 0)
    for name in _ENDS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for fd in others:
        os.close(fd)
    os.read(lifeline, 1)
    from fxlens.ipc import processes, temporary

    processes.kill_below(job)
    trackers = processes.kill_around_trackers(job)
    if not trackers:
        processes.kill_job(job)
    until = time.monotonic() + processes.TRACKER_SECONDS
    while time.monotonic() < until and any(map(processes.is_tracker, trackers)):
        time.sleep(0.01)
    for tracker in filter(processes.is_tracker, trackers):
        with contextlib.suppress(OSError):
            os.kill(tracker, signal.SIGKILL)
    temporary.remove(temporary.ours(folder))
