"""Clients that vanish, or do not read what the server writes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from lsp_client import MODEL, Client
from processes import descendants, gone
from servers import eventually
from wire import MALFORMED, SLOW, alive, framed, raw


def waiting_in(pipe: int) -> int:
    """The number of unread bytes."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


@pytest.mark.parametrize("moment", [0.0, None, 1.5], ids=["0.0", "both while torch is imported", "1.5"])
def test_client_vanishes(tmp_path: Path, moment: float | None, report):
    """Its pipes close at any time, or the server is killed with it; the server and all its processes end."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    server = Client(tmp_path, settings={"deadline": 60}, environment={"TMPDIR": str(temporary)}, cold=True)
    server.initialize()
    server.open(tmp_path / "slow.py", SLOW)
    if moment is None:
        eventually(lambda: len(descendants(server.pid)) > 2)  # the guard, too: the zygote runs our code
    else:
        time.sleep(moment)
    pids = [server.pid, *descendants(server.pid)]
    if moment is None:
        server.process.kill()
    server.process.stdin.close()
    server.process.stdout.close()
    began = time.monotonic()
    server.process.wait(60)
    assert gone(pids) == []
    eventually(lambda: not list(temporary.glob("fxlens-*")))
    report(outcome=f"{len(pids)} processes gone", recovered=time.monotonic() - began)


SLOW_STARTS = """
import asyncio, sys
from asyncio.base_subprocess import BaseSubprocessTransport as Transport
connect = Transport._connect_pipes
async def late(self, waiter):
    try:
        await asyncio.sleep({seconds})
    except asyncio.CancelledError as error:  # as the method itself does it
        if not waiter.cancelled():
            waiter.set_exception(error)
        return
    await connect(self, waiter)
Transport._connect_pipes = late
from fxlens.cli import main
sys.exit(main(["serve"]))
"""


@pytest.mark.parametrize("seconds, status", [(1, 0), (60, 1)], ids=["slow", "stuck"])
def test_client_vanishes_while_a_worker_is_started(tmp_path: Path, seconds: int, status: int, report):
    """The process exists, but asyncio has not reported it yet: the server waits for that, but not forever."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-c", SLOW_STARTS.format(seconds=seconds)]
    server = Client(tmp_path, command=command, environment={"TMPDIR": str(temporary)})
    server.initialize()
    eventually(lambda: list(temporary.glob("fxlens-*")) and descendants(server.pid))
    pids = [server.pid, *descendants(server.pid)]
    began = time.monotonic()
    server.process.stdin.close()
    assert server.process.wait(60) == status
    assert gone(pids) == []
    assert not list(temporary.glob("fxlens-*"))
    report(outcome="no folder is left", recovered=time.monotonic() - began)


def test_client_that_does_not_read(tmp_path: Path, report):
    """With a full pipe the server waits, and continues once it is read again."""
    command = [sys.executable, "-m", "fxlens", "serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:

        def send(message: dict) -> None:
            process.stdin.write(framed(json.dumps({"jsonrpc": "2.0", **message}).encode()))
            process.stdin.flush()

        options = {"trusted": False}
        send({"id": 0, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {},
                                                           "initializationOptions": options}})  # fmt: skip
        send({"method": "initialized", "params": {}})
        text = "import torch\nclass N(torch.nn.Module):\n    def forward(self, x):\n" + "        int(x.size(0))\n" * 400
        for n in range(3):
            item = {"uri": f"file:///tmp/unread{n}.py", "languageId": "python", "version": 1, "text": text}
            send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
        eventually(lambda: waiting_in(process.stdout.fileno()) > 60_000)  # of 64 KiB
        send({"id": 1, "method": "shutdown"})
        seen, began = b"", time.monotonic()
        while b'"id": 1' not in seen and b'"id":1' not in seen:
            data = os.read(process.stdout.fileno(), 65536)
            assert data and time.monotonic() - began < 60
            seen += data
        assert len(seen) > 65536
        send({"method": "exit"})
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    report(outcome=f"{len(seen) >> 10} KiB kept", recovered=time.monotonic() - began)


IMPATIENT = "from fxlens import cli, outbox\noutbox.MOST_UNREAD = 1 << 20\nraise SystemExit(cli.main(['serve']))\n"


def test_client_that_never_reads(tmp_path: Path, report):
    """It keeps sending: the unread data is bounded, and finally the server ends with all its processes."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", IMPATIENT]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)
    pids, sent, largest = [process.pid], 0, 0
    try:

        def send(message: dict) -> None:
            process.stdin.write(framed(json.dumps({"jsonrpc": "2.0", **message}).encode()))
            process.stdin.flush()

        uri = (tmp_path / "unread.py").as_uri()
        send({"id": 0, "method": "initialize", "params": {"processId": None, "rootUri": tmp_path.as_uri(),
                                                           "capabilities": {}}})  # fmt: skip
        send({"method": "initialized", "params": {}})
        item = {"uri": uri, "languageId": "python", "version": 1, "text": SLOW}
        send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
        until = time.monotonic() + 120
        with contextlib.suppress(BrokenPipeError):
            while process.poll() is None:
                assert time.monotonic() < until
                sent += 1
                # An answer as large as the question, for which nothing has to run.
                send({"id": sent, "method": "x" * 4096, "params": {}})
                if sent % 50 == 0 and process.poll() is None:
                    pids = [process.pid, *descendants(process.pid)]
                    with contextlib.suppress(OSError, IndexError, ValueError):
                        largest = max(largest, int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096)
        began = time.monotonic()
        assert process.wait(60) == 1
        assert gone(pids) == []
        assert b"unread: the server ends" in log.read_bytes()
        assert largest < 400 << 20
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
    report(tries=sent, outcome=f"ends, at most {largest >> 20} MiB", recovered=time.monotonic() - began)


def test_log_that_nobody_reads(tmp_path: Path, report):
    """More log than a pipe holds: the server continues without it."""
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    unread = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-c", f"import os, sys; os.dup2(os.open({str(pipe)!r}, os.O_WRONLY), 2); "
               "os.execv(sys.executable, [sys.executable, '-m', 'fxlens', 'serve'])"]  # fmt: skip
    try:
        with Client(tmp_path, trusted=False, command=command) as server:
            uri = server.open(tmp_path / "model.py", MODEL)
            assert server.diagnostics(uri) == []
            for _ in range(300):
                raw(server, MALFORMED["no JSON"])
            taken = alive(server, uri)
        logged = 0
        while data := os.read(unread, 65536):
            logged += len(data)
        assert logged >= 32768  # the pipe was full
    finally:
        os.close(unread)
    report(tries=300, outcome="answers all the same", recovered=taken)
