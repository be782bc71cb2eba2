"""Random sessions and a soak: nothing breaks, nothing grows.

``--seconds``, ``--seed`` and ``--minutes`` make them longer than they are by default.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from lsp_client import MODEL
from processes import descendants
from servers import started
from sessions import Session
from user_code import FATAL

QUIET = {"debounce": 0, "deadline": 0.6, "verify": False, "lowering": "off"}
OURS = ("a task of the session failed", "Exception in callback", "never retrieved", "Task was destroyed")


def test_random_sessions(tmp_path: Path, request: pytest.FixtureRequest, report):
    seconds, seed = request.config.getoption("--seconds"), request.config.getoption("--seed")
    first, sent = seed, Counter()
    slowest = 0.0
    with started(tmp_path, settings=QUIET) as server:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            session = Session(server, tmp_path, seed)
            try:
                session.run(60)
                session.finish()
            except Exception as error:
                raise AssertionError(f"seed {seed}, after {dict(session.sent)}: {error!r}") from error
            sent += session.sent
            server.settings = QUIET
            server.notify("workspace/didChangeConfiguration", {"settings": {}})
            server.request("fxlens/debugInfo", {})
            began = time.monotonic()
            uri = server.open(tmp_path / "probe.py", MODEL)
            assert server.diagnostics(uri, 1) == [], f"seed {seed}"
            slowest = max(slowest, time.monotonic() - began)
            server.close(uri)
            server.diagnostics(uri)
            said = server.errors.decode(errors="replace")
            assert not [each for each in OURS if each in said], f"seed {seed}: {said[-3000:]}"
            assert server.process.poll() is None
            server.received.clear()
            seed += 1
        time.sleep(1)
        assert len(descendants(server.process.pid)) <= 4
    report(tries=sum(sent.values()), outcome=f"seeds {first} to {seed - 1}", recovered=slowest)


def memory_of(pid: int) -> int:
    """Resident bytes. Not those of the process alone: which pages are shared changes with the forks that live."""
    return psutil.Process(pid).memory_info().rss


def test_soak(tmp_path: Path, request: pytest.FixtureRequest, report):
    """Edits, crashes, documents opened and closed: memory of server and zygote stays, processes too."""
    minutes = request.config.getoption("--minutes")
    crash = next(case for case in FATAL if case.name == "segmentation fault, forward")
    server_memory, zygote_memory, processes, traces = [], [], [], 0
    with started(tmp_path, settings=QUIET) as server:
        uri = (tmp_path / "warm.py").as_uri()
        zygote = psutil.Process(server.process.pid).children()[0].pid
        until, taken = time.monotonic() + max(minutes * 60, 3), []
        while time.monotonic() < until or traces < 60:
            began = time.monotonic()
            assert server.edit(uri, MODEL + f"# {traces}\n") == []
            taken.append(time.monotonic() - began)
            traces += 1
            if traces % 10 == 0:
                other = server.open(tmp_path / f"other{traces}.py", crash.text)
                server.diagnostics(other)
                server.close(other)
                server.diagnostics(other)
            server.received.clear()
            server_memory.append(memory_of(server.process.pid))
            zygote_memory.append(memory_of(zygote))
            processes.append(len(descendants(server.process.pid)))
        log = len(server.errors)
    third = len(server_memory) // 3
    grown = {
        name: statistics.median(values[-third:]) - statistics.median(values[:third])
        for name, values in (("server", server_memory), ("zygote", zygote_memory))
    }
    limit = 4 << 20
    assert grown["server"] < limit and grown["zygote"] < limit, (grown, traces)
    assert max(processes) <= 8 and processes[-1] <= 5, processes
    assert log < 1 << 20
    kib = ", ".join(f"{name} {value / 1024:+.0f} KiB" for name, value in grown.items())
    outcome = f"{kib}, at most {max(processes)} processes, median edit {statistics.median(taken) * 1000:.0f} ms"
    report(tries=traces, outcome=outcome, recovered=max(taken))
