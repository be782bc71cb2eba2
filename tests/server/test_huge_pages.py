"""Memory of processes that fork often, in pages of 2 MiB."""

from __future__ import annotations

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
    before, taken = huge(), [huge_pages.collapse(*part) for part in huge_pages.parts()]
    assert taken
    if any(taken):  # Linux 6.1 or later
        assert huge() > before
    assert held == [random.Random(number).randbytes(1 << 16) for number in range(600)]


def test_a_zygote_does_so_once_after_many_forks_when_no_command_waits(monkeypatch: pytest.MonkeyPatch):
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(huge_pages, "parts", lambda: iter([(1, 2), (3, 4)]))
    monkeypatch.setattr(huge_pages, "collapse", lambda *part: done.append(part))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        zygote = forking.Zygote(ours)
        assert zygote.patience() is None
        zygote.forks = 16
        assert zygote.patience() == 1000
        waits = []
        for _ in range(3):
            zygote.use_huge_pages()
            waits.append(zygote.patience())
        assert done == [(1, 2), (3, 4)] and waits == [0, 0, None]
        zygote.forks += 16
        assert zygote.patience() is None
