"""How a job ended, and the output that it wrote: the server's view of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fxlens.ipc.protocol import Json

Event = Json
OnEvent = Callable[[Event], None]

SLOW = "Timeout ("
"""The first words of faulthandler's stack of a slow process."""

_CRASHES = {-11, -10, -7, 0xC0000005}  # SIGSEGV; SIGBUS on macOS, on Linux; the same on Windows

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 32 * 1024


class WorkerUnavailable(Exception):
    """No job can run: the interpreter is missing, has no usable torch, or its process died at the start."""


class Failed(Exception):
    """A job on request has no result; the text is for the user."""


class Unfinished(str):
    """A sentence for the user: a job did not come to its end, for a reason that the next one may not have. What lacks
    its results is never kept."""


@dataclass
class Outcome:
    """``end`` is ``done``, ``exit`` (the process ended by itself), ``timeout`` (of a step), ``overtime`` (of all steps
    together), ``memory``, ``processes``, ``threads`` or ``lost`` (it closed or garbled its channel, or the worker
    died). ``status`` is the exit code, negative for a signal."""

    end: str
    status: int | None = None
    output: str = ""
    step: Event = field(default_factory=dict)
    stacks: str = ""
    """What it wrote about its own end, if not in ``output``."""
    refused: str = ""
    """Why its message was not read, if it is lost because of that."""

    @property
    def early(self) -> bool:
        """Whether the process ended before its job started."""
        return self.end in ("exit", "lost") and not self.step

    @property
    def died_of_its_stack(self) -> bool:
        """Whether the process was only slow and crashed while writing its stack.

        faulthandler writes the stack from another thread while Python keeps running, and on a busy machine it sometimes
        reads memory that is gone. That thread has signals blocked, so nothing follows its output, not even a report of
        the crash.
        """
        said = self.stacks or self.output
        return self.end == "exit" and self.status in _CRASHES and SLOW in said and "Fatal Python error" not in said


class Capture:
    """Keeps the first and the last part of a process's output, of any length."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        extra = len(self._tail) - TAIL_BYTES
        if extra > 0:
            self._dropped += extra
            del self._tail[:extra]

    def since(self, total: int) -> bytes:
        """The kept part of the output after the first ``total`` bytes."""
        wanted = self.total - total
        kept = bytes(self._tail[-wanted:]) if wanted > 0 else b""
        return bytes(self._head[total:]) + kept if total < len(self._head) else kept

    def text(self) -> str:
        middle = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return bytes(self._head + middle + self._tail).decode("utf-8", "replace")
