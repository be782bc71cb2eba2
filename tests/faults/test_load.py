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
from lsp_client import MODEL, Client
from processes import at_rest, descendants, settled, zygotes
from servers import started
from sessions import Session
from user_code import FATAL

QUIET = {"debounce": 0, "deadline": 0.6, "verify": False, "lowering": "off"}
LEAST = 2  # sessions, however slow the machine is
PUBLISH = "textDocument/publishDiagnostics"
OURS = (
    "a task failed",
    "ERROR fxlens.workspace.refreshing",
    "Exception in callback",
    "never retrieved",
    "Task was destroyed",
)


@pytest.mark.usefixtures("warm")
def test_random_sessions(tmp_path: Path, request: pytest.FixtureRequest, report):
    seconds, seed = request.config.getoption("--seconds"), request.config.getoption("--seed")
    first, sent = seed, Counter()
    slowest = 0.0
    with started(tmp_path, settings=QUIET) as server:
        until = time.monotonic() + seconds
        while seed < first + LEAST or time.monotonic() < until:
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
        assert len(settled(server.pid, at_rest())) <= at_rest()
    report(tries=sum(sent.values()), outcome=f"seeds {first} to {seed - 1}", recovered=slowest)


def memory_of(pid: int) -> int:
    """Resident bytes. Not those of the process alone: which pages are shared changes with the forks that live."""
    return psutil.Process(pid).memory_info().rss


@pytest.mark.usefixtures("warm")
def test_soak(tmp_path: Path, request: pytest.FixtureRequest, report):
    """Edits, crashes, documents opened and closed: memory of server and zygote stays, processes too."""
    minutes, least = request.config.getoption("--minutes"), request.config.getoption("--traces")
    crash = next(case for case in FATAL if case.name == "segmentation fault, forward")
    server_memory, zygote_memory, processes, traces = [], [], [], 0
    with started(tmp_path, settings=QUIET, cold=True) as server:
        uri = (tmp_path / "warm.py").as_uri()
        zygote = zygotes(server.pid)[0]
        until, taken = time.monotonic() + max(minutes * 60, 3), []
        while time.monotonic() < until or traces < least:
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
            server_memory.append(memory_of(server.pid))
            zygote_memory.append(memory_of(zygote))
            processes.append(len(descendants(server.pid)))
        left = settled(server.pid, at_rest())
        log = len(server.errors)
    third = len(server_memory) // 3
    grown = {
        name: statistics.median(values[-third:]) - statistics.median(values[:third])
        for name, values in (("server", server_memory), ("zygote", zygote_memory))
    }
    limit = 8 << 20
    assert grown["server"] < limit and grown["zygote"] < limit, (grown, traces)
    assert max(processes) <= 25 and len(left) <= at_rest(), (max(processes), left)
    assert log < 1 << 20
    kib = ", ".join(f"{name} {value / 1024:+.0f} KiB" for name, value in grown.items())
    outcome = f"{kib}, at most {max(processes)} processes, median edit {statistics.median(taken) * 1000:.0f} ms"
    report(tries=traces, outcome=outcome, recovered=max(taken))


def test_edits_while_another_file_loops(shared: Client, folder: Path, report):
    """A file in an endless loop, one in Python and one in C: edits of another file are answered as before."""
    loops = [case for case in FATAL if case.name in ("endless loop in Python, forward", "endless loop in C, import")]
    assert len(loops) == 2
    with shared.lent(**{**QUIET, "deadline": 1000}) as server:
        uri = (server.root / "warm.py").as_uri()

        def median(mark: str) -> float:
            taken = []
            for n in range(12):
                began = time.monotonic()
                assert server.edit(uri, f"{MODEL}# {mark} {n}\n") == []
                taken.append(time.monotonic() - began)
            return statistics.median(taken)

        alone = median("alone")
        loop = server.open(folder / "loop0.py", loops[0].text)
        beside_one = median("one")
        server.open(folder / "loop1.py", loops[1].text)
        beside_two = median("two")
        told = [each["params"]["uri"] for each in server.received if each.get("method") == PUBLISH]
        assert not [each for each in told if "loop" in each]
        assert server.edit(loop, MODEL) == []
    assert beside_one < 20 * alone + 1 and beside_two < 40 * alone + 2
    outcome = f"median edit {alone * 1000:.0f} ms, {beside_one / alone:.1f} and {beside_two / alone:.1f} times that"
    report(tries=36, outcome=outcome, recovered=beside_two)


DEEP = """
# fxlens: Deep() <- torch.randn(16, 2, 512)
class Deep(nn.Module):
    def __init__(self, layers: int = 1000):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(512, 8) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("deadline", [60.0, 0.3], ids=["enough time", "too little time"])
def test_1000_layers(shared: Client, folder: Path, deadline: float, report):
    """A transformer of 1,000 layers on meta is traced; one that is too large for the deadline on any machine is stopped
    with one finding that names it. The server lives."""
    text = MODEL.split("\n\n\n")[0] + "\n\n" + (DEEP if deadline > 1 else DEEP.replace("1000", "20000"))
    with shared.lent(**{**QUIET, "deadline": deadline}) as server:
        began = time.monotonic()
        uri = server.open(folder / "deep.py", text)
        found = server.diagnostics(uri)
        taken = time.monotonic() - began
        (target,) = server.request("fxlens/record", {"uri": uri})["record"]["targets"]
        if deadline > 1:
            assert found == [] and target["status"] == "traced"
            assert sum(node["op"] == "call_module" for node in target["nodes"]) == 1000
        else:
            assert [each["code"] for each in found] == ["FX304"] and target["status"] == "failed"
            assert found[0]["message"].startswith("Deep was stopped after 0.3 s")
        began = time.monotonic()
        assert server.edit((server.root / "warm.py").as_uri(), MODEL + f"# after {began}\n") == []
        recovered = time.monotonic() - began
    outcome = f"traced in {taken:.1f} s" if deadline > 1 else "FX304 with its name"
    report(outcome=outcome, recovered=recovered)
