"""The pipes through which jobs print."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from .outcome import Capture

_PIPE_BYTES = 1 << 20


def enlarge(pipe: int) -> None:
    """Makes the pipe as large as the system allows: a job that prints a lot then blocks less often."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # each user has a limit
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class PipeCapture:
    """Reads a pipe as it fills, and up to its current end when the text is requested."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.capture = Capture()
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._once)

    def text(self) -> str:
        for _ in range(64):  # a process that never stops writing must not block us
            if not self._once():
                break
        return self.capture.text()

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _once(self) -> bool:
        if self._fd < 0:
            return False
        try:
            data = os.read(self._fd, _PIPE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            return False
        self.capture.feed(data)
        return True
