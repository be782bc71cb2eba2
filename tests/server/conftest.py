"""Shared by the tests of the server: one warm server per file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lsp_client import Client


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def client(workspace: Path) -> Iterator[Client]:
    with Client(workspace) as client:
        yield client
