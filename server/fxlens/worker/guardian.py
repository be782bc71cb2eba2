"""Ends a job's processes once the server is gone, where there is no zygote to do it.

A thread of the job could not: code in C that never returns keeps every other thread from running.  So a small process
waits, made before torch is imported and so without threads to lose.  It is of the job's group, and ends with it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable

_ENDS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM")


def during_import(control: int, folder: str) -> int:
    """Forks a process that kills this one and removes ``folder`` once the other end of the socket ``control`` closes;
    gives its number, for `dismiss`. It reads nothing from the socket."""
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
    """Ends the process that `during_import` made: from now on this one sees by itself that the server went."""
    os.kill(guard, signal.SIGKILL)
    os.waitpid(guard, 0)


def start(lifeline: int, folder: str, others: Iterable[int]) -> None:
    """Forks a process that waits until the other end of ``lifeline`` is closed, then kills this one's group and removes
    ``folder``.  ``others`` are the descriptors that it must not hold open.

    It is no child of this process: user code that waits for its children must not meet it."""
    between = os.fork()
    if between:
        os.close(lifeline)
        os.waitpid(between, 0)
        return
    try:
        if os.fork() == 0:
            _guard(lifeline, folder, others)
    finally:
        os._exit(0)


def _guard(lifeline: int, folder: str, others: Iterable[int]) -> None:
    for name in _ENDS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for fd in others:
        os.close(fd)
    os.read(lifeline, 1)
    from fxlens.ipc import processes, temporary

    if trackers := processes.kill_around_trackers(os.getpgrp()):
        until = time.monotonic() + processes.TRACKER_SECONDS
        while time.monotonic() < until and any(map(processes.is_tracker, trackers)):
            time.sleep(0.01)
    # The kill takes this process too: another one, of a group of its own, waits for that and clears up.
    ended, held = os.pipe()
    left, leaving = os.pipe()
    if os.fork():
        os.read(left, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.close(held)
    os.setsid()
    os.write(leaving, b".")
    os.read(ended, 1)
    temporary.remove(temporary.ours(folder))
