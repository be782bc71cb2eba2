"""The index in a process of its own, so that building and asking it hold up nobody else.

Reads requests from standard input and writes answers to standard output, one JSON object a line:

    {"id": 1, "do": "answers", "path": "/w/net.py"}  ->  {"id": 1, "answers": {"Net": {…}}, "functions": […]}
    {"do": "update", "path": "/w/net.py", "text": "…" or null}

It first builds, and says so with ``{"built": {…}}``; then answers in order.  It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from .index import Index
from .store import Store

_DEEP = 12_000


def main(root: str, exclude: list[str], store: str) -> None:
    """Serves the folder until standard input ends."""
    sys.setrecursionlimit(_DEEP)
    with suppress(OSError, AttributeError):
        os.nice(5)  # what the user waits for comes first
    index = Index(root, tuple(exclude), Store(root, Path(store)) if store else None)
    serve(index, sys.stdin, sys.stdout)


def serve(index: Index, requests: TextIO, out: TextIO) -> None:
    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    with suppress(BrokenPipeError):
        send({"built": asdict(index.build())})
        for line in requests:
            request = json.loads(line)
            if request["do"] == "update":
                index.update(request["path"], request["text"])
            elif request["do"] == "answers":
                send({"id": request["id"], **answers(index, request["path"])})


def answers(index: Index, path: str) -> dict[str, Any]:
    """All that is known of a file's classes and functions, as plain data."""
    found = {}
    for name in index.classes(path):
        data = asdict(index.answer(path, name))
        data["captured"] = index.captured(path, name)
        data["aside"] = index.aside(path, name)
        data["wholes"] = [asdict(each) for each in index.wholes(path, name)]
        found[name] = data
    return {"answers": found, "functions": index.functions(path)}
