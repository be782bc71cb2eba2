"""Shared by the proofs: a warm server, and each proof's row in the table of ``python -m tests.faults``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lsp_client import MODEL, Client


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--seconds", type=float, default=0.0, help="seconds of random sessions, two at least")
    group.addoption("--seed", type=int, default=1, help="seed of the first random session")
    group.addoption("--minutes", type=float, default=0.1, help="minutes of the soak")
    group.addoption("--traces", type=int, default=60, help="traces of the soak, at least")
    group.addoption("--documents", type=int, default=8, help="documents that are open at once, with 20 edits each")
    group.addoption("--stride", type=int, default=151, help="characters from one traced prefix of a file to the next")


class Report:
    """The report of one proof: the number of tries, the observations, and the time until the next good answer."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def __call__(self, *, tries: int = 1, outcome: str = "", recovered: float | None = None) -> None:
        self._record("tries", tries)
        self._record("outcome", outcome)
        if recovered is not None:
            self._record("recovered", recovered)


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    return Report(record_property)


@pytest.fixture(scope="module")
def workspace(shared: Client) -> Path:
    """Where ``warm.py`` is open."""
    return shared.root


@pytest.fixture(scope="module")
def server(shared: Client) -> Iterator[Client]:
    with shared.lent(verify=False, lowering="off") as client:
        # The first endless recursion imports torch's compiler, which takes longer than the deadline below.
        text = MODEL.replace("torch.relu", "(lambda f: f(f))(lambda f: f(f)) or torch.relu")
        client.diagnostics(client.open(client.root / "first.py", text))
    with shared.lent(deadline=1, verify=False, lowering="off", jobs=2) as client:
        yield client
