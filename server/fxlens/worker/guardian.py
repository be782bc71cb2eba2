"""Ends a job's processes once the server is gone, where there is no zygote to do it.

A thread of the job could not: code in C that never returns keeps every other thread from running.  So a small process
waits, made before torch is imported and so without threads to lose.  It is of the job's group, and ends with it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

_ENDS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM")


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
    from fxlens.ipc import temporary

    temporary.remove(temporary.ours(folder))
