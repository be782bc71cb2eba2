"""The facts seen by a process, written at once: one line of JSON each, so that a crash loses nothing."""

from __future__ import annotations

import json
import os
from typing import Any

_MOST = 1 << 28
_LONGEST = 1 << 20
"""Characters of one journal, and of a line of it, that are read: the program can write there, too."""


class Journal:
    """A file for each process in ``folder``; a forked child gets its own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = -1
        self._descriptor = -1
        self._file: tuple[int, int] | None = None

    def write(self, fact: dict[str, Any]) -> None:
        """Append one fact.  A full disk or a removed folder silently ends the recording of this process."""
        pid = os.getpid()
        try:
            if pid != self._pid or not self._is_ours():
                path = os.path.join(self.folder, f"{pid}.jsonl")
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
                self._descriptor, self._pid = os.open(path, flags, 0o600), pid
                self._file = _identity(self._descriptor)
            os.write(self._descriptor, (json.dumps(fact) + "\n").encode())
        except OSError:
            self._descriptor, self._file, self._pid = -1, None, pid

    def _is_ours(self) -> bool:
        """Whether the descriptor is still that of the journal: a program that closes all descriptors, as daemons do,
        may reuse its number."""
        try:
            return _identity(self._descriptor) == self._file
        except OSError:
            return self._file is None  # the recording has ended


def _identity(descriptor: int) -> tuple[int, int]:
    state = os.fstat(descriptor)
    return state.st_dev, state.st_ino


def read(folder: str) -> list[dict[str, Any]]:
    """The facts of all processes, in the order of the processes' numbers; half-written lines are left out."""
    facts: list[dict[str, Any]] = []
    if not os.path.isdir(folder):
        return facts
    for name in sorted(os.listdir(folder), key=lambda name: (len(name), name)):
        if not name.endswith(".jsonl") or not os.path.isfile(os.path.join(folder, name)):
            continue
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            left = _MOST
            while left > 0 and (line := file.readline(_LONGEST)):
                left -= len(line)
                try:
                    fact = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(fact, dict):
                    facts.append(fact)
    return facts
