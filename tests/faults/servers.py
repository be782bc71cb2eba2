"""Servers for the proofs."""

from __future__ import annotations

import time
from collections.abc import Callable

from lsp_client import started

__all__ = ["eventually", "started"]


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
