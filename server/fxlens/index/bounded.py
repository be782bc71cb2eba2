"""Bounds on the work for reading one text: it is untrusted, and a few lines can mean years of work.

They apply in the index's own process after `begin`; elsewhere work is unbounded.
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
_STUCK = 60.0  # seconds before a stuck request ends its process, since C code cannot be interrupted

Result = TypeVar("Result")

_begun = False
_until = math.inf  # in processor time of this process
_watched = -math.inf


class TooMuch(BaseException):
    """A time limit was exceeded. Not an Exception, so that handlers of errors do not catch it."""


def begin() -> None:
    """Enables bounds: on pieces of work, and on memory (MemoryError) if the system supports it."""
    global _begun
    _begun = True
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, _look)
        signal.setitimer(signal.ITIMER_PROF, _TICK, _TICK)


def end() -> None:
    """Disables bounds, before the end of Python itself."""
    global _begun
    _begun = False
    faulthandler.cancel_dump_traceback_later()
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)


def within(seconds: float, work: Callable[[], Result], otherwise: Result) -> Result:
    """The result of ``work``, or ``otherwise`` if it raises or takes more than so many processor seconds.

    Calls may be nested: an inner one is bounded by the outer ones, too.
    """
    global _until
    if not _begun:
        return work()
    before = _until
    _until = min(before, time.process_time() + seconds)
    try:
        return work()
    except Exception:  # an unexpected text must not affect the answers for others
        return otherwise
    except TooMuch:
        if time.process_time() >= before:
            raise
        return otherwise
    finally:
        _until = before


def watch() -> None:
    """(Re)starts the timer that ends this process if the current request is stuck."""
    global _watched
    if _begun and time.monotonic() - _watched > _STUCK / 10:
        _watched = time.monotonic()
        faulthandler.dump_traceback_later(_STUCK, exit=True, file=_null)


def rest() -> None:
    """Stops the timer while idle, and clears earlier failures."""
    global _until, _watched
    _until, _watched = math.inf, -math.inf
    faulthandler.cancel_dump_traceback_later()


def _look(signum: int, frame: object) -> None:
    global _until
    if _watched > -math.inf:
        watch()  # Python code is running: slow, but not stuck
    if time.process_time() > _until:
        _until = math.inf
        raise TooMuch


_null = open(os.devnull, "w")  # noqa: SIM115  (the error output of the index is not read)
