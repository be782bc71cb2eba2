"""Bounds on what reading one text may take: anybody may have written it, and a few lines can mean years of work.

They hold in the index's own process, once `begin` was called; elsewhere work is done as it is.
"""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_MEMORY = 4 << 30
_TICK = 0.05
_STUCK = 60.0  # seconds that a request may take until its process ends: it is in C code, which nothing interrupts

Result = TypeVar("Result")

_begun = False
_until = math.inf  # of the time that this process has used
_watched = -math.inf


class TooMuch(BaseException):
    """It took longer than it may.  No Exception: what goes on after errors must not go on after this."""


def begin() -> None:
    """From now on pieces of work are bounded, and memory raises MemoryError where the system counts it."""
    global _begun
    _begun = True
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, _look)
        signal.setitimer(signal.ITIMER_PROF, _TICK, _TICK)


def end() -> None:
    """Nothing is bounded any more: Python's own end is no time for it."""
    global _begun
    _begun = False
    faulthandler.cancel_dump_traceback_later()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)


def within(seconds: float, work: Callable[[], Result], otherwise: Result) -> Result:
    """What ``work`` gives, or ``otherwise`` where it raises, or takes longer than so many seconds of this process.

    Calls may be nested: no inner one takes longer than the outer ones may.
    """
    global _until
    if not _begun:
        return work()
    before = _until
    _until = min(before, time.process_time() + seconds)
    try:
        return work()
    except Exception:  # by a text that nobody thought of: the others have their answers all the same
        return otherwise
    except TooMuch:
        if time.process_time() >= before:
            raise
        return otherwise
    finally:
        _until = before


def watch() -> None:
    """The request that begins, or goes on, ends this process where it is stuck."""
    global _watched
    if _begun and time.monotonic() - _watched > _STUCK / 10:
        _watched = time.monotonic()
        faulthandler.dump_traceback_later(_STUCK, exit=True, file=_null)


def rest() -> None:
    """Nothing is asked: waiting is no reason to end, nor is what went wrong before for what comes next."""
    global _until, _watched
    _until, _watched = math.inf, -math.inf
    faulthandler.cancel_dump_traceback_later()


def _look(signum: int, frame: object) -> None:
    global _until
    if _watched > -math.inf:
        watch()  # Python runs: on a busy machine this takes its time, and is not stuck
    if time.process_time() > _until:
        _until = math.inf
        raise TooMuch


_null = open(os.devnull, "w")  # noqa: SIM115  (nobody reads the error output of the index)
