"""How a job ended, and the output that it wrote: the server's view of one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
OnEvent = Callable[[Event], None]

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 32 * 1024


class WorkerUnavailable(Exception):
    """No job can run: the interpreter is missing, has no usable torch, or its process died at the start."""


@dataclass(frozen=True)
class Limits:
    """What one step of a job may take.  ``deadline`` in seconds, ``memory`` in bytes of resident set, ``processes``
    a count."""

    deadline: float = 10.0
    memory: int = 8 << 30
    processes: int = 64


@dataclass
class Outcome:
    """``end`` is ``done``, ``exit`` (the process ended by itself), ``timeout``, ``memory``, ``processes`` or
    ``lost`` (it closed or garbled its channel, or the worker died).  ``status`` is the exit code, negative for a
    signal."""

    end: str
    status: int | None = None
    output: str = ""
    step: Event = field(default_factory=dict)
    peak_memory: int = 0


class Capture:
    """Keeps the first and the last part of what a process writes, however much that is."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        extra = len(self._tail) - TAIL_BYTES
        if extra > 0:
            self._dropped += extra
            del self._tail[:extra]

    def text(self) -> str:
        middle = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return bytes(self._head + middle + self._tail).decode("utf-8", "replace")


def resident_memory(pid: int) -> int:
    """Bytes of resident set that are the process's own (shared pages left out); 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


def group_size(group: int) -> int:
    """Processes in a process group; 0 where the system does not say."""
    count = 0
    try:
        entries = os.listdir("/proc")
    except OSError:
        return 0
    for entry in entries:
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            count += int(fields[2]) == group
    return count


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
