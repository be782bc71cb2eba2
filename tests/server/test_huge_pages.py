"""Memory of processes that fork often, in pages of 2 MiB."""

from __future__ import annotations

import json
import random
import re
import socket
from pathlib import Path

import pytest
from fxlens.worker import forking, huge_pages


def huge() -> int:
    """How much memory of this process is in huge pages, in bytes."""
    found = re.search(r"AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(found[1]) << 10 if found else 0


def test_what_is_in_memory_stays_as_it_is():
    held = [random.Random(number).randbytes(1 << 16) for number in range(600)]
    before = huge()
    if huge_pages.use():  # Linux 6.1 or later
        assert huge() > before
    assert held == [random.Random(number).randbytes(1 << 16) for number in range(600)]


def test_a_zygote_does_so_once_before_it_forks_what_lives_long(monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []
    monkeypatch.setattr(huge_pages, "use", lambda: done.append("huge"))
    monkeypatch.setattr(forking.compiler, "imported", lambda: None)
    for name in ("fork_job", "fork_branch", "fork_keeper"):
        monkeypatch.setattr(forking.Zygote, name, lambda self, *given, name=name: done.append(name))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        zygote = forking.Zygote(ours)
        for command in ("run", "keep", "branch", "compiler", "keep"):
            message = {"do": command, "job": 1, "warm": False, "folder": "/no/such", "modules": []}
            theirs.send(json.dumps(message).encode())
            assert zygote.command()
    assert done == ["fork_job", "huge", "fork_keeper", "fork_branch", "huge", "fork_keeper"]
