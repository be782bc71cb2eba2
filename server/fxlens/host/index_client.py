"""The event loop's side of ``index.service``: starts the process, queries it, and reports changes to it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_HERE = Path(__file__).resolve()
_START = (
    "import sys; sys.path[:0] = [sys.argv[1]]; import json; from fxlens.index import service; "
    "service.main(sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])"
)
_LONGEST_LINE = 1 << 26
_MOST_STARTS = 3
_TRIES = 2
"""Of a question.  The process may have died of it, and others need the next one."""
_MOST_WAITING = 4 << 20
"""Limit of unread bytes; beyond it, only the last text of each file is kept."""


class IndexClient:
    """One index process for one folder.  Methods may be called at any time. A process that died is restarted a few
    times; the next one gets the editor's texts again, and what was asked waits for it."""

    def __init__(self, root: str, exclude: tuple[str, ...] = (), store: str = "") -> None:
        self.root, self.exclude, self.store = root, exclude, store
        self.built: dict[str, Any] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | None]] = {}
        self._ready = asyncio.Event()
        self._last = 0
        self._starts = 0
        self._later: dict[str, str | None] = {}
        self._texts: dict[str, str] = {}  # those of the editor that are told so far

    async def start(self) -> None:
        """Starts the process; it starts building at once."""
        self._starts += 1
        self._later = {**self._texts, **self._later}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        command = [sys.executable, "-I", "-c", _START, str(_HERE.parents[2]), self.root]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, json.dumps(self.exclude), self.store,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                cwd=str(_HERE.parent), env=environment, limit=_LONGEST_LINE,
            )  # fmt: skip
        except OSError as error:
            log.warning("the index cannot be started: %s", error)
            self._ready.set()
            return
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def ready(self) -> dict[str, Any] | None:
        """Waits until the index is built; returns the time it took, or None if there is no index."""
        await self._ready.wait()
        return self.built

    def update(self, path: str, text: str | None) -> None:
        """Report a change of a file on disk (``text`` is None) or in the editor."""
        self._later.pop(path, None)
        self._later[path] = text
        if text is None:
            self._texts.pop(path, None)
        else:
            self._texts[path] = text
        self._send_later()

    async def answers(self, path: str) -> dict[str, Any] | None:
        """The index's entries for the classes of a file; None if there is no index. If the process dies of something
        else meanwhile, the next one is asked."""
        question = {"do": "answers", "path": path}
        for _ in range(_TRIES):
            reader = self._reader
            if (answer := await self._asked(question)) is not None or reader is None:
                return answer
            await asyncio.wait({reader})  # it ends when the next process has been started, or none is
        return None

    async def gone(self, path: str) -> bool:
        """Whether a path that is no more was a folder with files that are read, now forgotten."""
        answer = await self._asked({"do": "update", "path": path, "text": None})
        return answer is not None and answer["changed"]

    async def look_again(self, whole: bool) -> bool:
        """Whether files have changed on disk that nobody has told, from now on known; unless ``whole``, only those
        behind links out of the folder count."""
        answer = await self._asked({"do": "look again", "whole": whole})
        return answer is not None and answer["changed"]

    async def _asked(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The answer of the process that runs now; None if it dies."""
        self._last += 1
        self._send_later(all_of_it=True)
        future = asyncio.get_running_loop().create_future()
        if not self._send({"id": self._last, **question}):
            return None
        self._waiting[self._last] = future
        return await future

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            self._reader.cancel()
        self._end()

    def _send_later(self, all_of_it: bool = False) -> None:
        """Sends the changes, unless too much is unread; then the next question or answer sends them."""
        stdin = self._process.stdin if self._process else None
        if stdin is None:
            return
        while self._later and (all_of_it or stdin.transport.get_write_buffer_size() < _MOST_WAITING):
            path = next(iter(self._later))
            self._send({"do": "update", "path": path, "text": self._later.pop(path)})

    def _send(self, message: dict[str, Any]) -> bool:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            return False
        process.stdin.write(json.dumps(message).encode() + b"\n")
        return True

    async def _read(self) -> None:
        process = self._process
        assert process is not None and process.stdout is not None
        try:
            while line := await process.stdout.readline():
                message = json.loads(line)
                if "built" in message:
                    self.built = message["built"]
                    self._ready.set()
                elif (future := self._waiting.pop(message["id"], None)) is not None and not future.done():
                    future.set_result(message)
                self._send_later()
        except (ValueError, KeyError):
            log.exception("the index said something that cannot be read")
        finally:
            self._end()
        if self._process is not process:
            return
        again = self._starts < _MOST_STARTS
        if again:
            log.warning("the index of %s ended and is started again", self.root)
        else:
            log.warning("the index of %s ended %d times and is not started again", self.root, self._starts)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        self._end()  # what was asked meanwhile
        if again and self._process is process:
            await self.start()

    def _end(self) -> None:
        self._ready.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
        self._waiting.clear()
