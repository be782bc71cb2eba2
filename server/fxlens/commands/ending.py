"""Ends `fxlens serve` and `fxlens mcp` at once on SIGINT, SIGTERM and SIGHUP, also while they wait for input."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from fxlens.ipc import temporary


def at_once(last: Callable[[], object] | None = None) -> None:
    """From now on these signals end this process, after calling ``last``, without waiting for the thread that
    reads the input, as Python would. The workers end when this process does."""

    def end(number: int, frame: Any) -> None:
        temporary.remove_all()
        if last is not None:
            last()
        os._exit(128 + number)

    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), end)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # by nohup
        signal.signal(signal.SIGHUP, end)
