"""The index in a separate process, so that building and querying it block nothing else.

Reads requests from standard input and writes answers to standard output, one JSON object a line:

    {"id": 1, "do": "answers", "path": "/w/net.py"}  ->  {"id": 1, "answers": {"Net": {…}}, "functions": […]}
    {"do": "update", "path": "/w/net.py", "text": "…" or null}  ->  nothing, or with an "id" as below
    {"id": 2, "do": "look again", "whole": true}  ->  {"id": 2, "changed": false}

It first builds the index, reports ``{"built": {…}}``, and then answers in order. It ends with its input, and with its
parent process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from . import bounded
from .index import Index
from .store import Store

_DEEP = 12_000
_PR_SET_PDEATHSIG = 1
_SECONDS, _SECONDS_OF_CLASS = 10.0, 3.0


def main(root: str, exclude: list[str], store: str) -> None:
    """Serves the folder until standard input ends."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control+C reaches it, too, and is for the command
    bounded.begin()
    sys.setrecursionlimit(_DEEP)
    with suppress(OSError, AttributeError):
        os.nice(5)  # work that the user waits for has priority
    index = Index(root, tuple(exclude), Store(root, Path(store)) if store else None)
    try:
        serve(index, sys.stdin, sys.stdout)
    finally:
        bounded.end()


def serve(index: Index, requests: TextIO, out: TextIO) -> None:
    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    with suppress(BrokenPipeError):
        send({"built": asdict(index.build())})
        bounded.rest()
        for line in requests:
            request = json.loads(line)
            bounded.watch()
            if request["do"] == "update":
                changed = index.update(request["path"], request["text"])
                if "id" in request:
                    send({"id": request["id"], "changed": changed})
            elif request["do"] == "look again":
                send({"id": request["id"], "changed": index.look_again(request["whole"])})
            elif request["do"] == "answers":
                send({"id": request["id"], **answers(index, request["path"])})
            bounded.rest()


def answers(index: Index, path: str) -> dict[str, Any]:
    """Everything known of a file's classes and functions, as plain data; less if that would take too long."""
    found: dict[str, Any] = {}
    own = index.known_as(path)

    def collect() -> None:
        for name in index.classes(own):
            data: dict[str, Any] = {}
            bounded.within(_SECONDS_OF_CLASS, partial(_answer, index, own, name, data), None)
            if data:
                found[name] = data

    bounded.within(_SECONDS, collect, None)
    functions: list[Any] = bounded.within(_SECONDS_OF_CLASS, lambda: list(index.functions(own)), [])
    said = {"answers": found, "functions": functions}
    return said if own == path else _renamed(said, own, path)


def _answer(index: Index, path: str, name: str, data: dict[str, Any]) -> None:
    """Puts into ``data`` what is found by the time that is left."""
    data.update(asdict(index.answer(path, name)), wholes=[])
    data["captured"] = index.captured(path, name)
    data["aside"] = index.aside(path, name)
    data["wholes"] += (asdict(each) for each in index.wholes(path, name))


def _renamed(said: Any, own: str, path: str) -> Any:
    """An answer in which a file has the name that it was asked about by."""
    if isinstance(said, dict):
        return {key: _renamed(each, own, path) for key, each in said.items()}
    if isinstance(said, (list, tuple)):
        return [_renamed(each, own, path) for each in said]
    return path if said == own else said


def _end_with_parent() -> None:
    """Linux: end also if the server is killed while this process is busy and does not read its input."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
