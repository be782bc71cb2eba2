"""A small language client for tests: starts the real server, speaks LSP on its pipes, collects what it sends."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warm_python import warm_fxlens, work_of

CAPABILITIES = {
    "workspace": {"configuration": True, "didChangeWatchedFiles": {"dynamicRegistration": True}},
    "textDocument": {"publishDiagnostics": {"relatedInformation": True, "versionSupport": True}},
}

# Hints on lowering and other captures are separate jobs.
SETTINGS = {"debounce": 0, "deadline": 3, "lowering": "off", "captures": ["fx"], "scope": "all"}

MODEL = """import torch
from torch import nn


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))
"""


class Client:
    """Use as a context manager. ``settings`` are the client's answer for the section ``fxlens``. Not each
    client ``knows_trust``, the option. ``named``: the process that the server is told to be the client. A ``cold``
    server is started by the real interpreter, for tests of its start, its group or its end."""

    def __init__(
        self,
        root: Path,
        *,
        trusted: bool = True,
        knows_trust: bool = True,
        settings: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        command: list[str] | None = None,
        cold: bool = False,
        named: int | None = None,
    ) -> None:
        self.root = root
        self.named = named or os.getpid()
        self.settings = {**SETTINGS, **(settings or {})}
        self.trusted, self.knows_trust = trusted, knows_trust
        self.capabilities = capabilities or CAPABILITIES
        self.process = subprocess.Popen(
            command or ([sys.executable, "-m", "fxlens", "serve"] if cold else warm_fxlens("serve")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        self.received: list[dict[str, Any]] = []
        self.asked_for: list[dict[str, Any]] = []
        """The requests that the server has sent."""
        self.errors = b""
        self._new: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._next_id = 1_000_000  # below are the numbers that tests make up in messages of their own
        self._versions: dict[str, int] = {}
        self._open: set[str] = set()
        self._asked = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def __enter__(self) -> Client:
        self.initialize()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def initialize(self) -> dict[str, Any]:
        answer = self.request(
            "initialize",
            {
                "processId": self.named,
                "rootUri": self.root.as_uri(),
                "workspaceFolders": [{"uri": self.root.as_uri(), "name": self.root.name}],
                "capabilities": self.capabilities,
                "initializationOptions": {"trusted": self.trusted} if self.knows_trust else None,
            },
        )
        self.notify("initialized", {})
        return answer

    def stop(self) -> None:
        if self.process.poll() is None:
            try:
                self.request("shutdown", None, timeout=60)
                self.notify("exit", None)
                self.process.wait(60)
            except Exception:
                self.process.kill()
                self.process.wait(60)
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                continue

    @property
    def pid(self) -> int:
        """Of the server, whoever has started it."""
        return work_of(self.process.pid)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait(60)

    # Settings

    def configure(self, **settings: Any) -> None:
        """Settings from now on, those of tests where none is given; returns once the server has them."""
        self.settings = {**SETTINGS, **settings}
        self._asked.clear()
        self.notify("workspace/didChangeConfiguration", {"settings": None})
        assert self._asked.wait(120), "the server asks for its settings"
        for _ in range(2):  # it takes them between two messages
            self.request("fxlens/status", {})

    @contextlib.contextmanager
    def lent(self, **settings: Any) -> Iterator[Client]:
        """This client with other settings, for one test of many: earlier messages are dropped, and opened documents are
        closed at the end."""
        before, open_before = self.settings, set(self._open)
        self._forget()
        if {**SETTINGS, **settings} != before:
            self.configure(**settings)
        try:
            yield self
        finally:
            for uri in self._open - open_before:
                self.close(uri)
            if self.settings != before:
                self.configure(**before)
            self._forget()

    def _forget(self) -> None:
        """Drops all messages received so far."""
        self.request("fxlens/status", {})
        while not self._new.empty():
            self._new.get()
        self.received.clear()

    # Documents

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        self._versions[uri] = 1
        self._open.add(uri)
        item = {"uri": uri, "languageId": "python", "version": 1, "text": path.read_text() if text is None else text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, text: str) -> int:
        self._versions[uri] += 1
        identifier = {"uri": uri, "version": self._versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [{"text": text}]})
        return self._versions[uri]

    def save(self, uri: str) -> None:
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def close(self, uri: str) -> None:
        self._open.discard(uri)
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def diagnostics(self, uri: str, version: int | None = None, timeout: float = 120) -> list[dict[str, Any]]:
        """The next complete diagnostics for the document (of that version); a message is given out once."""
        message = self.wait(
            lambda each: (
                each.get("method") == "textDocument/publishDiagnostics"
                and each["params"]["uri"] == uri
                and each["params"].get("version") is not None
                and version in (None, each["params"]["version"])
            ),
            timeout,
        )
        return message["params"]["diagnostics"]

    def edit(self, uri: str, text: str, timeout: float = 120) -> list[dict[str, Any]]:
        return self.diagnostics(uri, self.change(uri, text), timeout)

    def actions(self, uri: str, diagnostic: dict[str, Any]) -> list[dict[str, Any]]:
        context = {"diagnostics": [diagnostic], "triggerKind": 1}
        parameters = {"textDocument": {"uri": uri}, "range": diagnostic["range"], "context": context}
        until = time.monotonic() + 120
        while True:
            found = self.request("textDocument/codeAction", parameters)
            # On a busy machine the fixes may not be proven yet: the titles then say so.
            if time.monotonic() > until or not [each for each in found if "(being checked)" in each["title"]]:
                return found
            time.sleep(0.1)

    # Messages

    def request(self, method: str, parameters: Any, timeout: float = 120) -> Any:
        number = self.start(method, parameters)
        message = self.wait(lambda each: each.get("id") == number and "method" not in each, timeout)
        if "error" in message:
            raise RuntimeError(message["error"])
        return message.get("result")

    def start(self, method: str, parameters: Any) -> int:
        """Sends a request and gives its number, without waiting for the answer."""
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": parameters})
        return self._next_id

    def notify(self, method: str, parameters: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def wait(self, wanted: Any, timeout: float = 120) -> dict[str, Any]:
        """The first message not returned yet for which ``wanted`` is true."""
        until = time.monotonic() + timeout
        for at, message in enumerate(self.received):
            if wanted(message):
                return self.received.pop(at)
        while True:
            try:
                message = self._new.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no such message in {timeout} s; {self._state()}") from None
            if message is None:
                raise EOFError(f"the server ended: {self.errors[-2000:]!r}")
            if wanted(message):
                return message
            self.received.append(message)

    def _state(self) -> str:
        """The server's state and messages, for an error about a missing message."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(1)
        last = [str(each)[:300] for each in self.received[-10:]]
        return f"messages: {last}; server log: {self.errors[-8000:].decode(errors='replace')}"

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _read(self) -> None:
        stream = self.process.stdout
        while True:
            size = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            if not line:
                self._new.put(None)
                return
            message = json.loads(stream.read(size))
            if "method" in message and "id" in message:
                self._answer(message)
            else:
                self._new.put(message)

    def _answer(self, message: dict[str, Any]) -> None:
        result: Any = None
        self.asked_for.append(message)
        if message["method"] == "workspace/configuration":
            result = [self.settings for _ in message["params"]["items"]]
        elif message["method"] == "workspace/applyEdit":
            result = {"applied": True}
            self._new.put(message)
        with contextlib.suppress(OSError, ValueError):  # a test that kills the client has closed the pipe
            self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if message["method"] == "workspace/configuration":
            self._asked.set()

    def _read_errors(self) -> None:
        while data := self.process.stderr.read1(65536):
            self.errors += data


@contextlib.contextmanager
def started(workspace: Path, **options: Any) -> Iterator[Client]:
    """A server whose worker is warm, with a good file open in it."""
    with Client(workspace, **options) as client:
        uri = client.open(workspace / "warm.py", MODEL)
        assert client.diagnostics(uri) == []
        client.request("fxlens/record", {"uri": uri})
        yield client


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """The text after LSP edits; everything here is ASCII, so characters are UTF-16 units."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    placed = []
    for number, edit in enumerate(edits):
        ends = [starts[p["line"]] + p["character"] for p in (edit["range"]["start"], edit["range"]["end"])]
        placed.append((ends[0], number, ends[1], edit["newText"]))
    for start, _, end, new in sorted(placed, reverse=True):
        text = text[:start] + new + text[end:]
    return text
