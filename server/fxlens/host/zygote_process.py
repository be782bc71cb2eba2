"""The process of a zygote: its start, its output, its end."""

from __future__ import annotations

import asyncio
import contextlib

from fxlens.ipc.processes import TRACKER_SECONDS

from . import orphans
from .launch import EXIT_SECONDS, Launch, ended_at_start

_END_SECONDS = TRACKER_SECONDS + 1.0  # for it to end by itself, after the trackers of its jobs
_LOG_BYTES = 16 * 1024


class ZygoteProcess:
    """Made by `start`.  The last lines of its standard error are kept."""

    def __init__(self, python: str, process: asyncio.subprocess.Process) -> None:
        self._python = python
        self._process = process
        self._log = bytearray()
        self._draining = asyncio.ensure_future(self._drain())

    @classmethod
    async def start(cls, launch: Launch, fd: int, folder: str) -> ZygoteProcess:
        """It gets the descriptor of its control socket, and the folder that it removes at its end.

        Raises WorkerUnavailable if the interpreter cannot be started.
        """
        process = await launch.start(
            "fork",
            fd,
            folder=folder,
            environment=launch.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )
        return cls(launch.python, process)

    def log(self) -> str:
        """The last lines that it wrote to its standard error."""
        return bytes(self._log).decode("utf-8", "replace")

    async def why_it_ended(self) -> str:
        """The reason, from its output, why it ended before its hello."""
        await self._wait(EXIT_SECONDS)
        await asyncio.wait({self._draining}, timeout=EXIT_SECONDS)
        return ended_at_start(self._python, self.log(), self._process.returncode)

    def kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def end(self) -> None:
        """After its control socket was closed: waits for its end, and kills it if it takes too long."""
        await self._wait(_END_SECONDS)
        self.kill()
        await self._process.wait()
        await orphans.end(self._process.pid)

    async def end_orphans(self) -> None:
        """Ends the processes that it left behind."""
        await self._wait(EXIT_SECONDS)
        await orphans.end(self._process.pid)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)

    async def _drain(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._log += data
            del self._log[:-_LOG_BYTES]
