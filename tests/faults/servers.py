"""Servers for the proofs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lsp_client import MODEL, Client


@contextmanager
def started(workspace: Path, **options: Any) -> Iterator[Client]:
    """A server whose worker is warm, with a good file open in it."""
    with Client(workspace, **options) as client:
        uri = client.open(workspace / "warm.py", MODEL)
        assert client.diagnostics(uri) == []
        client.request("fxlens/record", {"uri": uri})
        yield client


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
