"""Servers for the proofs."""

from __future__ import annotations

from collections.abc import Iterator
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
