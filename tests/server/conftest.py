"""Shared by the tests of the server: one warm server for all of them, with a folder for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client


@pytest.fixture(scope="module", autouse=True)
def starts_are_warm(warm_python: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """As ``warm`` does; tests of the start itself name the real interpreter.  A file that asks torch.export or
    torch.compile in most of its processes says ``WARM = "captures"``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIRTUAL_ENV", str(warm_python / getattr(request.module, "WARM", "plain")))
        yield


@pytest.fixture(scope="module")
def workspace(shared: Client, request: pytest.FixtureRequest) -> Path:
    folder = shared.root / request.module.__name__
    folder.mkdir(exist_ok=True)  # a worker can come back to a file of tests
    return folder


@pytest.fixture(scope="module")
def client(shared: Client) -> Iterator[Client]:
    with shared.lent() as client:
        yield client
