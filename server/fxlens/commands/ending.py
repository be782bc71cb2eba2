"""Ends `fxlens serve` and `fxlens mcp` at once on SIGINT and SIGTERM, also while they wait for input."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from fxlens.ipc import temporary


def at_once(last: Callable[[], object] | None = None) -> None:
    """From now on SIGINT and SIGTERM end this process, after calling ``last``, without waiting for the thread that
    reads the input, as Python would. The workers end when this process does."""

    def end(number: int, frame: Any) -> None:
        temporary.remove_all()
        if last is not None:
            last()
        os._exit(128 + number)

    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), end)
