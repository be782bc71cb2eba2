"""User code that misbehaves, in real processes: one finding with the class and place, and everything else continues."""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import clock, descendants, gone, processes_with, settled_at_rest, tree, zygotes
from servers import eventually, started
from user_code import FATAL, HARMLESS, LEAVES_FILES, Case

PUBLISH = "textDocument/publishDiagnostics"
NUMBERS = itertools.count()  # a file for each try, so that answers cannot be mixed up
HOVER = {"line": 11, "character": 16}  # torch.relu in MODEL


def severe(diagnostics: list[dict]) -> list[dict]:
    return [each for each in diagnostics if each["severity"] <= 2 or each["code"].startswith("FX3")]


def recovered(server: Client, uri: str) -> float:
    """Seconds until an edit that repairs the file is answered."""
    began = time.monotonic()
    assert server.edit(uri, MODEL) == []
    return time.monotonic() - began


def hovered(server: Client, workspace: Path) -> float:
    """Seconds (`clock`) for a hover in another document, which must be right."""
    began = clock(server)
    answer = server.request(
        "textDocument/hover", {"textDocument": {"uri": (workspace / "warm.py").as_uri()}, "position": HOVER}
    )
    taken = clock(server) - began
    assert "relu" in answer["contents"]["value"]
    return taken


def hovered_meanwhile(server: Client, workspace: Path, uri: str) -> list[float]:
    """The same again and again until something is found in ``uri``, and once at least."""
    taken = [hovered(server, workspace)]
    while not [each for each in server.received if each.get("method") == PUBLISH and each["params"]["uri"] == uri]:
        time.sleep(0.1)
        taken.append(hovered(server, workspace))
        assert sum(taken) < 120
    return taken


def close(server: Client, uri: str) -> None:
    server.close(uri)
    assert server.diagnostics(uri) == []


@pytest.mark.parametrize("case", FATAL, ids=lambda case: case.name)
def test_fatal(server: Client, workspace: Path, case: Case, report):
    uri = server.open(workspace / f"faulty_{next(NUMBERS)}.py", case.text)
    hovers = hovered_meanwhile(server, workspace, uri)
    found = severe(server.diagnostics(uri))
    assert [each["code"] for each in found] == list(case.codes), found
    message = found[0]["message"]
    assert case.says in message, message
    if case.name == "os._exit, init":
        assert "constructed" in message, message
    if case.where != "import":
        assert "Bad" in (message, found[0]["data"]["target"]) or "Bad" in message, message
    if case.line_known:
        assert found[0]["range"]["start"]["line"] == case.line, message
    if case.where != "import":
        record = server.request("fxlens/record", {"uri": uri})["record"]
        assert {each["name"]: each["status"] for each in record["targets"]}["Good"] == "traced"
    taken = recovered(server, uri)
    close(server, uri)
    assert max(hovers) < 10  # what it is on a quiet machine stands in the table
    middle, worst = statistics.median(hovers) * 1000, max(hovers) * 1000
    outcome = f"{found[0]['code']}; {len(hovers)} hovers elsewhere meanwhile, {middle:.0f} ms, at most {worst:.0f} ms"
    report(outcome=outcome, recovered=taken)


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name)
def test_harmless(server: Client, workspace: Path, case: Case, report):
    uri = server.open(workspace / f"odd_{next(NUMBERS)}.py", case.text)
    found = severe(server.diagnostics(uri))
    assert found == []
    record = server.request("fxlens/record", {"uri": uri})["record"]
    assert {each["name"]: each["status"] for each in record["targets"]} == {"Bad": "traced", "Good": "traced"}
    assert len(record["output"]) < 200_000
    assert [each["dtype"] for each in record["targets"][1]["nodes"] if each["dtype"]] in ([], ["float32"] * 3)
    taken = recovered(server, uri)
    close(server, uri)
    report(outcome="traced, next edit too", recovered=taken)


def test_nothing_is_left(server: Client, folder: Path, report):
    """After all earlier tests, on the shared server."""
    uri = server.open(folder / "after.py", MODEL)
    assert server.diagnostics(uri) == []
    close(server, uri)
    for number, case in enumerate((FATAL[0], FATAL[11], FATAL[15], HARMLESS[5])):
        uri = server.open(folder / f"faulty{number}.py", case.text)
        server.diagnostics(uri)
        recovered(server, uri)
        close(server, uri)
    assert settled_at_rest(server), tree(server.pid)
    left = descendants(server.pid)
    report(tries=4, outcome=f"{len(left)} processes (zygotes and their spares)")


DIES_OF_ITS_STACK = """import faulthandler, stat; faulthandler.disable()
for fd in range(700, 720) if WHEN else ():
    try: kind = os.fstat(fd).st_mode
    except OSError: continue
    stat.S_ISFIFO(kind) and os.write(fd, b'Timeout (0:00:01)!') and os.kill(os.getpid(), signal.SIGSEGV)"""


def test_a_process_that_dies_of_its_stack(server: Client, folder: Path, report):
    """On a busy machine the interpreter may crash where it writes the stack of a step that is only slow: everything
    then continues in another process. A second crash is reported."""
    flag = folder / "was here"
    # From C: what a constructor opens with `open` is a copy.
    once = f"not os.path.exists({str(flag)!r}) and ctypes.CDLL(None).creat({str(flag).encode()!r}, 0o600) >= 0"
    for number, (when, codes) in enumerate(((once, []), ("True", ["FX305"]))):
        text = Case("", "init", DIES_OF_ITS_STACK.replace("WHEN", when)).text
        uri = server.open(folder / f"slow{number}.py", text)
        assert [each["code"] for each in severe(server.diagnostics(uri))] == codes
        targets = server.request("fxlens/record", {"uri": uri})["record"]["targets"]
        statuses = {"Bad": "failed" if codes else "traced", "Good": "traced"}
        assert [(each["name"], each["status"]) for each in targets] == list(statuses.items())
        close(server, uri)
    assert flag.exists()
    report(tries=2, outcome="traced at the second try, or FX305")


WITHOUT_END = {
    "memory": ("held = [bytearray(b'x') * (1 << 22) for _ in iter(int, 1)]", "400 MiB"),
    "memory of a child": (
        "os.fork() or [bytearray(b'x') * (1 << 22) for _ in iter(int, 1)]; time.sleep(999)",
        "400 MiB",
    ),
    "a fork bomb": ("[os.fork() for _ in range(7)]; time.sleep(999)", "processes"),  # 128: 64 are the most
    "memory of a child in its own session": (
        "os.fork() or (os.setsid(), [bytearray(b'x') * (1 << 22) for _ in iter(int, 1)]); time.sleep(999)",
        "400 MiB",
    ),
    "memory shared with children": (
        "import mmap; m = mmap.mmap(-1, 1 << 30); [os.fork() or time.sleep(999) for _ in range(3)]\n"
        "for n in range(1 << 10): m.write(b'x' * (1 << 20)); time.sleep(0.002)\ntime.sleep(999)",
        "400 MiB",
    ),
    "memory in a file that is not mapped": (
        "fd = os.memfd_create('m')\nfor n in range(1 << 10): os.write(fd, b'x' * (1 << 20)); time.sleep(0.002)\n"
        "time.sleep(999)",
        "400 MiB",
    ),
    "sessions of their own": (
        "for _ in range(100): os.fork() or (os.setsid(), time.sleep(999))\ntime.sleep(999)",
        "processes",
    ),
    "threads": (
        "threading.stack_size(1 << 16)\nfor _ in range(1600 + 16 * os.cpu_count()):\n"
        "    threading.Thread(target=time.sleep, args=(999,), daemon=True).start()\ntime.sleep(999)",
        "threads",
    ),
    "programs started": ("for _ in range(100): ctypes.CDLL(None).system(b'sleep 999 &')\ntime.sleep(999)", "processes"),
}


def test_memory_and_processes_without_end(shared: Client, folder: Path, report):
    slowest = 0.0
    with shared.lent(deadline=300, memory=400, verify=False, lowering="off") as server:
        for name, (statement, says) in WITHOUT_END.items():
            uri = server.open(folder / "endless.py", Case("", "forward", statement).text)
            found = severe(server.diagnostics(uri))
            assert [each["code"] for each in found] == ["FX307"], (name, found)
            assert "Bad" in found[0]["message"] and says in found[0]["message"], found[0]["message"]
            slowest = max(slowest, recovered(server, uri))
            close(server, uri)
        assert settled_at_rest(server), tree(server.pid)
    report(tries=len(WITHOUT_END), outcome="FX307 with its class", recovered=slowest)


def files_in(folder: Path) -> list[str]:
    """All but the empty folders that workers and jobs are given, and the one that torch makes at its import."""
    found = [name for at, folders, names in os.walk(folder) for name in [*names, *folders]]
    return [name for name in found if not name.isdigit() and not name.startswith(("fxlens-jobs-", "torchinductor_"))]


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("mode", ["fork", "spawn"])
def test_temporary_files_end_with_their_job(tmp_path: Path, mode: str, report):
    """However the job and then the server end: normally or killed."""
    ends = {"traced": ("pass", []), "crashed": ("os.abort()", ["FX305"]), "hung": ("while True: pass", ["FX304"])}
    if mode == "spawn":  # each process of this kind imports torch; other ends are seen to where one server does all
        ends = {}
    for killed in (False, True) if mode == "fork" else (True,):
        temporary = tmp_path / f"tmp{killed}"
        temporary.mkdir()
        settings = {"deadline": 0.6, "worker": mode, "verify": False, "lowering": "off"}
        begin = started if mode == "fork" else Client
        with begin(tmp_path, settings=settings, environment={"TMPDIR": str(temporary)}, cold=True) as server:
            for end, codes in ends.values():
                text = Case("", "forward", f"{LEAVES_FILES}\n{end}").text
                uri = server.open(tmp_path / "leaves.py", text)
                assert [each["code"] for each in severe(server.diagnostics(uri))] == codes
                server.request("fxlens/record", {"uri": uri})
                close(server, uri)
                eventually(lambda at=temporary: files_in(at) == [])
            if killed:
                server.open(tmp_path / "hangs.py", Case("", "forward", f"{LEAVES_FILES}\nwhile True: pass").text)
                eventually(lambda at=temporary: "of-a-child" in files_in(at))
                server.kill()
        eventually(lambda at=temporary: not [each for each in os.listdir(at) if "fxlens" in each])
    report(tries=2 * len(ends) + 1, outcome="all gone")


def test_server_and_worker_killed_at_once(tmp_path: Path, report):
    """With nothing left to clean up, the processes still end, and the next server start removes the folder."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (temporary / "fxlens-jobs-not-one-of-ours").touch()
    environment = {"TMPDIR": str(temporary), "FXLENS_TEST_MARK": str(tmp_path)}
    settings = {"deadline": 600, "verify": False, "lowering": "off"}
    with started(tmp_path, settings=settings, environment=environment, cold=True) as server:
        text = Case("", "forward", f"{LEAVES_FILES}\nsum(iter(int, 1))").text
        server.open(tmp_path / "hangs.py", text)
        eventually(lambda: "of-a-child" in files_in(temporary))
        pids = processes_with(str(tmp_path))
        os.kill(server.pid, signal.SIGSTOP)  # it must not notice the end of its worker
        os.kill(zygotes(server.pid)[0], signal.SIGKILL)
        server.kill()
        assert gone(pids) == []
    left = [path for path in temporary.glob("fxlens-jobs-*") if path.is_dir()]  # the zygote's, and a kept file's
    assert left
    for path in left:
        os.utime(path, (0, 0))  # a new one might be about to be taken
    began = time.monotonic()
    with started(tmp_path, settings=settings, environment=environment):
        eventually(lambda: not any(path.exists() for path in left))
    report(outcome=f"{len(pids)} processes and their folder gone", recovered=time.monotonic() - began)


HUGE_NAME = """import torch
from torch import nn

Huge = type("E" * (10 << 20), (Exception,), {})


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        raise Huge("\udcff")
"""


def test_a_name_of_megabytes_makes_no_message_of_megabytes(server: Client, folder: Path, report):
    uri = server.open(folder / "huge_name.py", HUGE_NAME)
    found = server.diagnostics(uri)
    assert found and all(len(each["message"]) < 5000 for each in found)
    assert all(len(other["message"]) < 5000 for each in found for other in each.get("relatedInformation", ()))
    taken = recovered(server, uri)
    close(server, uri)
    report(outcome="cut", recovered=taken)


FORGED = """import json, os, stat, struct
import torch
from torch import nn

MESSAGES = {messages!r}
for fd in range(700, 720):
    try:
        kind = os.fstat(fd).st_mode
    except OSError:
        continue
    if stat.S_ISSOCK(kind):
        for message in MESSAGES:
            body = json.dumps(message).encode()
            os.write(fd, struct.pack(">I", len(body)) + body)


class Net(nn.Module):
    def forward(self, x):
        return x
"""
MESSAGES = {
    "a target of nothing": {"event": "target", "target": {}},
    "a target that is a number": {"event": "target", "target": 3},
    "findings that are none": {"event": "findings", "findings": 3},
    "an end without files": {"event": "end", "third_party": [[3]]},
    "a graph of nothing": {"event": "graph"},
    "a failure without words": {"event": "failed"},
    "a step of nobody": {"event": "step", "step": "trace", "target": ["Net"], "line": "x"},
    "a step at a line far away": {"event": "step", "step": "trace", "target": "Net", "line": 1 << 70},
    "no event": {},
    "findings without anything": {"event": "findings", "findings": [{}]},
    "a target without its place": {"event": "target", "target": {"name": "Net", "status": "traced"}},
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_a_wrong_form(server: Client, workspace: Path, name: str, report):
    """User code that finds our descriptor prevents only the trace of its own file."""
    uri = server.open(workspace / f"forged_{next(NUMBERS)}.py", FORGED.format(messages=[MESSAGES[name]]))
    found = severe(server.diagnostics(uri))
    assert {each["code"] for each in found} <= {"FX305", "FX199"}, found
    hovered(server, workspace)
    taken = recovered(server, uri)
    close(server, uri)
    report(outcome="its file alone is not traced", recovered=taken)


FORGING = """import json, os, stat, struct, threading, time
import torch
from torch import nn


def forge(event):
    body = json.dumps(event).encode()
    for fd in range(700, 720):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, struct.pack(">I", len(body)) + body)
        except OSError:
            continue


def always():
    while True:
        forge({event!r})
        time.sleep(0.1)


threading.Thread(target=always, daemon=True).start()
time.sleep(300)


class Net(nn.Module):
    def forward(self, x):
        return x
"""
PROLONGING = {
    "a step again and again": {"event": "step", "step": "import", "target": None, "line": None},
    "a job that waits": {"event": "idle"},
}


@pytest.mark.parametrize("name", PROLONGING)
def test_no_message_prolongs_a_deadline(server: Client, workspace: Path, name: str, report):
    """A file of one class has the time of nine steps, whatever its job announces."""
    began = time.monotonic()
    uri = server.open(workspace / f"forged_{next(NUMBERS)}.py", FORGING.format(event=PROLONGING[name]))
    found = severe(server.diagnostics(uri))
    taken = time.monotonic() - began
    assert [each["code"] for each in found] == ["FX304"], found
    assert taken < 100  # 6 s on a quiet machine; on a busy one a step may take ten times as long
    mended = recovered(server, uri)
    close(server, uri)
    report(outcome=f"FX304 after {taken:.0f} s", recovered=mended)


def test_shared_memory_counts(shared: Client, folder: Path, report):
    text = Case("", "import", "import mmap; m = mmap.mmap(-1, 1 << 30)\nfor n in range(1 << 10):\n"
                "    m.write(b'x' * (1 << 20)); time.sleep(0.002)\ntime.sleep(9)").text  # fmt: skip
    with shared.lent(deadline=30, memory=256, verify=False) as server:
        uri = server.open(folder / "sharing.py", text)
        assert [each["code"] for each in severe(server.diagnostics(uri))] == ["FX307"]
        taken = recovered(server, uri)
    report(outcome="FX307", recovered=taken)
