"""Very large messages and graphs: other documents are served meanwhile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from lsp_client import MODEL, Client
from processes import clock
from test_notebook_cells import EDITOR, Book
from test_user_code import close, hovered, recovered, severe

SENDING = """import json, os, stat, struct
import torch
from torch import nn

{body}
for fd in range(700, 720):
    try:
        kind = os.fstat(fd).st_mode
    except OSError:
        continue
    if stat.S_ISSOCK(kind):
        data = memoryview(struct.pack(">I", len(body)) + body)
        while data:
            data = data[os.write(fd, data) :]


class Net(nn.Module):
    def forward(self, x):
        return x
"""
# The contents are as slow to read as JSON can be.
BODIES = {
    "200 MB": ("body = b' ' * (200 << 20)", "of 200 MiB; at most 64 MiB are read"),
    "objects": ("body = b'{\"event\": \"x\", \"a\": [' + b'{},' * (60 << 18) + b'{}]}'", ""),
    "fractions": ("body = b'{\"event\": \"x\", \"a\": [' + b'0.5,' * (60 << 17) + b'1]}'", ""),
    "lists": ("body = b'{\"event\": \"x\", \"a\": [' + b'[],' * (60 << 17) + b'1]}'", "millions of lists"),
    "one text": ('body = b\'{"event": "x", "a": "\' + b\'a\' * (60 << 20) + b\'"}\'', ""),
}
MOST = 3.0
"""Seconds (`clock`) for a hover elsewhere; on a quiet machine none took one."""


@pytest.mark.parametrize("name", BODIES)
def test_a_large_message(shared: Client, folder: Path, name: str, report):
    body, says = BODIES[name]
    with shared.lent(deadline=30, verify=False, lowering="off") as server:
        uri = server.open(folder / "sending.py", SENDING.format(body=body))
        slowest = hovers_until(server, lambda each: _publishes(each, uri))
        found = severe(server.diagnostics(uri))
        assert [each["code"] for each in found] == (["FX305"] if says else []), found
        assert not says or says in found[0]["message"], found
        taken = recovered(server, uri)
        close(server, uri)
    assert slowest < MOST
    report(outcome=f"hovers elsewhere at most {slowest * 1000:.0f} ms meanwhile", recovered=taken)


WIDE = """
# fxlens: Wide() <- torch.randn(2, 4)
class Wide(nn.Module):
    def forward(self, x):
        for _ in range(15000):
            x = torch.relu(x)
        return x
"""


@pytest.mark.timeout(400)
def test_a_graph_of_15000_nodes(shared: Client, folder: Path, report):
    """It is drawn in parts that can be opened, never as a whole."""
    text = MODEL.split("\n\n\n")[0] + "\n\n" + WIDE
    tries: dict[str, float] = {}
    with shared.lent(deadline=300, verify=False, lowering="off") as server:
        uri = server.open(folder / "wide.py", text)
        tries["trace"] = hovers_until(server, lambda each: _publishes(each, uri))
        assert server.diagnostics(uri) == []

        def asked(method: str, parameters: dict[str, Any]) -> Any:
            number = server.start(method, parameters)
            answers = []
            slowest = hovers_until(server, lambda each: _answers(each, number) and not answers.append(each))
            tries[method] = max(slowest, tries.get(method, 0.0))
            return answers[0]["result"]

        record = asked("fxlens/record", {"uri": uri})["record"]
        assert len(record["targets"][0]["nodes"]) == 15002
        view = asked("fxlens/graph", {"uri": uri, "target": "Wide"})["view"]
        assert len(view["elements"]) < 100 and "only 5,000 of them have details" in view["partial"]
        first = next(iter(view["groups"]))
        opened = asked("fxlens/graph", {"uri": uri, "target": "Wide", "expanded": [first]})["view"]
        assert 500 <= len(opened["elements"]) < 600
        everything = asked("fxlens/graph", {"uri": uri, "target": "Wide", "expanded": list(view["groups"])})["view"]
        assert len(everything["elements"]) < 100 and "its modules are collapsed" in everything["partial"]
        assert asked("fxlens/code", {"uri": uri, "target": "Wide", "view": "code"})["text"]
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        assert asked("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
        line = next(number for number, each in enumerate(text.splitlines()) if "torch.relu" in each)
        at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 24}}
        assert "relu" in asked("textDocument/hover", at)["contents"]["value"]
        close(server, uri)
    print(tries)
    assert max(tries.values()) < MOST, tries
    slowest = max(tries, key=tries.__getitem__)
    report(tries=len(tries), outcome=f"hovers elsewhere at most {tries[slowest] * 1000:.0f} ms, during {slowest}")


def hovers_until(server: Client, arrived: Any) -> float:
    """The longest time of a hover elsewhere until such a message arrives."""
    slowest, until = 0.0, time.monotonic() + 250
    while True:
        slowest = max(slowest, hovered(server, server.root))
        if any(arrived(each) for each in server.received):
            return slowest
        assert time.monotonic() < until
        time.sleep(0.02)


def _answers(message: dict[str, Any], number: int) -> bool:
    return message.get("id") == number and "method" not in message


def _publishes(message: dict[str, Any], uri: str) -> bool:
    """All findings in the document."""
    if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
        return False
    return message["params"].get("version") is not None


def test_a_notebook_that_takes_long_to_read(tmp_path: Path, report):
    """Blanks before a magic, and a request that is nested deep: requests are answered meanwhile."""
    slowest = 0.0
    with Client(tmp_path, trusted=False, capabilities=EDITOR) as server:
        cells = [("python", " " * 100_000 + "x\n%time y\n"), ("python", MODEL)]
        book = Book(server, tmp_path / "blanks.ipynb", cells)
        for number in range(10):
            book.type(1, f"x = {number}\n")
            began = clock(server)
            server.request("fxlens/status", {})
            slowest = max(slowest, clock(server) - began)
        nested: list[object] = []
        for _ in range(600):
            nested = [nested]
        with pytest.raises(RuntimeError, match="not as LSP describes"):
            server.request("fxlens/record", {"uri": book.at(1), "more": nested})
        book.close()
    assert slowest < MOST
    report(tries=10, outcome=f"answered within {slowest * 1000:.0f} ms")


FUNCTION = "def f{n}(a, b={n}):\n    return [a for a in range(b) if a + {n} > b] + [f'{{a}}', {{'k': a}}]\n"
CLASS = "class N{n}(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x\n"
LONG = {
    "functions": (True, FUNCTION, 15_000),
    "classes, not trusted": (False, CLASS, 20_000),
}


@pytest.mark.usefixtures("warm")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", LONG)
def test_a_long_file(tmp_path: Path, name: str, report):
    """Megabytes of code, which take seconds to parse; with edits meanwhile."""
    trusted, piece, count = LONG[name]
    text = MODEL + "".join(piece.format(n=number) for number in range(count))
    (tmp_path / "warm.py").write_text(MODEL)
    with Client(tmp_path, trusted=trusted, settings={"verify": False, "deadline": 1.0}) as server:
        server.diagnostics(server.open(tmp_path / "warm.py"))
        uri, slowest = server.open(tmp_path / "long.py", text), 0.0
        for number in range(2):
            until = time.monotonic() + 5
            while time.monotonic() < until:
                slowest = max(slowest, asked(server, tmp_path))
                time.sleep(0.05)
            server.change(uri, text + f"# {number}\n")
        server.close(uri)
    assert slowest < MOST, slowest
    report(tries=2, outcome=f"answers elsewhere after at most {slowest * 1000:.0f} ms")


def asked(server: Client, root: Path) -> float:
    """Seconds (`clock`) until a hover in the other file is answered: with nothing before trust."""
    began = clock(server)
    uri = (root / "warm.py").as_uri()
    server.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 11, "character": 16}})
    return clock(server) - began
