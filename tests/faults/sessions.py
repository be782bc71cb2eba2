"""Random but repeatable LSP sessions: well-formed requests with any values, in any order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from hostile import DEEP
from lsp_client import MODEL, Client
from user_code import FATAL, HARMLESS

_PIECES = [
    "x",
    "(",
    ")",
    ":",
    "\n",
    "    ",
    "é",
    "𝄞",
    "\r\n",
    "'''",
    "#",
    "class A(nn.Module):",
    "return x",
    "\0",
    "\t",
    "",
]
_REQUESTS = {
    "textDocument/hover": ("position",),
    "textDocument/inlayHint": ("range",),
    "textDocument/codeLens": (),
    "textDocument/codeAction": ("range", "context"),
}
_OWN = ("fxlens/record", "fxlens/trace", "fxlens/graph", "fxlens/code", "fxlens/debugInfo", "fxlens/restart")


class Session:
    """One seed, one session.  ``run`` sends ``length`` messages; a request that is answered by an error is a fault."""

    def __init__(self, client: Client, folder: Path, seed: int) -> None:
        self.client, self.folder = client, folder
        self.choose = random.Random(seed)
        self.open: dict[str, str] = {}
        self.sent: Counter[str] = Counter()

    def run(self, length: int) -> None:
        for _ in range(length):
            action = self.choose.choices(
                [
                    self.begin,
                    self.edit,
                    self.replace,
                    self.save,
                    self.end,
                    self.ask,
                    self.ask_own,
                    self.cancel,
                    self.configure,
                ],
                [3, 12, 4, 2, 2, 10, 2, 2, 1],
            )[0]
            self.sent[action.__name__] += 1
            action()

    def finish(self) -> None:
        for uri in list(self.open):
            self.client.close(uri)
        self.open.clear()

    # What a client does

    def text(self) -> str:
        kind = self.choose.random()
        if kind < 0.5:
            return MODEL
        if kind < 0.7:
            return self.choose.choice([*FATAL, *HARMLESS]).text
        if kind < 0.9:
            return MODEL[: self.choose.randrange(len(MODEL))]
        return DEEP[self.choose.choice([name for name in DEEP if name not in ("power", "long line")])]

    def uri(self) -> str:
        if self.open and self.choose.random() < 0.9:
            return self.choose.choice(list(self.open))
        return self.choose.choice(["untitled:none", "file:///nowhere.py", (self.folder / "never.py").as_uri(), ""])

    def position(self) -> dict[str, int]:
        number = self.choose.choice([0, 0, 1, 5, 11, 30, 2**31 - 1])
        return {"line": self.choose.randrange(14) if number else 0, "character": number}

    def range(self) -> dict[str, Any]:
        return {"start": self.position(), "end": self.position()}

    def begin(self) -> None:
        path = self.folder / f"f{self.choose.randrange(8)}.py"
        text = self.text()
        if path.as_uri() not in self.open:
            self.open[self.client.open(path, text)] = text

    def edit(self) -> None:
        if self.open:
            uri = self.choose.choice(list(self.open))
            start = self.position()
            end = start if self.choose.random() < 0.7 else {"line": start["line"] + 1, "character": 0}
            change = {"range": {"start": start, "end": end}, "text": self.choose.choice(_PIECES)}
            self.client._versions[uri] += 1
            identifier = {"uri": uri, "version": self.client._versions[uri]}
            self.client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]})

    def replace(self) -> None:
        if self.open:
            uri = self.choose.choice(list(self.open))
            self.open[uri] = self.text()
            self.client.change(uri, self.open[uri])

    def save(self) -> None:
        self.client.save(self.uri())

    def end(self) -> None:
        if self.open:
            uri = self.choose.choice(list(self.open))
            del self.open[uri]
            self.client.close(uri)

    def ask(self) -> None:
        method = self.choose.choice(list(_REQUESTS))
        parameters: dict[str, Any] = {"textDocument": {"uri": self.uri()}}
        for name in _REQUESTS[method]:
            parameters[name] = {"diagnostics": []} if name == "context" else getattr(self, name)()
        self.client.request(method, parameters)

    def ask_own(self) -> None:
        parameters = {"uri": self.uri(), "target": self.choose.choice(["Net", "Bad", "", None, 3]), "view": "code"}
        self.client.request(self.choose.choice(_OWN), parameters)

    def cancel(self) -> None:
        number = f"fuzz-{self.choose.random()}"
        request = {"jsonrpc": "2.0", "id": number, "method": "fxlens/record", "params": {"uri": self.uri()}}
        self.client._send(request)
        self.client.notify("$/cancelRequest", {"id": number})

    def configure(self) -> None:
        self.client.settings = {
            "debounce": self.choose.choice([0, 5, 50]),
            "deadline": self.choose.choice([0.3, 0.6]),
            "enable": self.choose.random() < 0.9,
            "run": self.choose.choice(["onType", "onType", "onSave", "manual"]),
            "verify": self.choose.random() < 0.5,
            "lowering": self.choose.choice(["off", "hints"]),
        }
        self.client.notify("workspace/didChangeConfiguration", {"settings": {}})
