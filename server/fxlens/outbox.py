"""A pipe to the client, written by a thread, so that the server never waits for a client that does not read."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

MOST_UNREAD = 64 << 20
"""Bytes of messages that a client may leave unread."""

MOST_LOG = 1 << 20
"""Bytes of log that a client may leave unread; more is dropped."""


class Outbox:
    """Has the interface of a binary or text stream for writing.

    ``overflow`` is called if more than ``most`` bytes are waiting, and decides whether to keep the new data. A single
    message may be larger than that.
    """

    def __init__(self, fd: int, most: int, overflow: Callable[[], bool]) -> None:
        self._fd, self._most, self._overflow = fd, most, overflow
        self._parts: deque[bytes] = deque()
        self._waiting = 0
        self._error: OSError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True, name="fxlens-outbox").start()

    def write(self, data: bytes | str) -> int:
        """Never blocks.  Raises BrokenPipeError once the other end is known to be closed."""
        raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        with self._changed:
            if self._error is not None:
                raise BrokenPipeError(*self._error.args)
            if self._waiting > self._most and not self._overflow():
                return len(data)
            self._parts.append(raw)
            self._waiting += len(raw)
            self._changed.notify_all()
        return len(data)

    def flush(self) -> None:
        """Nothing to do: written data is already being sent."""

    def close(self, seconds: float = 5.0) -> None:
        """Gives the other end a moment to read the rest."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._waiting and self._error is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._parts:
                    self._changed.wait()
                part = memoryview(self._parts.popleft())
            try:
                while part:
                    written = os.write(self._fd, part)
                    part = part[written:]
                    with self._changed:
                        self._waiting -= written
                        self._changed.notify_all()
            except OSError as error:
                with self._changed:
                    self._error = error
                    self._parts.clear()
                    self._changed.notify_all()
                return


def to_client(fd: int, log_box: Outbox | None) -> Outbox:
    """For messages. None can be dropped, so this process ends if a client leaves too many unread."""

    def end() -> bool:
        log.error("the client has left %d MiB of messages unread: the server ends", MOST_UNREAD >> 20)
        if log_box is not None:
            log_box.close(2.0)
        os._exit(1)

    return Outbox(fd, MOST_UNREAD, end)


def to_log(fd: int) -> Outbox:
    return Outbox(fd, MOST_LOG, lambda: False)
