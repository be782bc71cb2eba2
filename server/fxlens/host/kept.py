"""Keeps files executed and their models constructed, so that an edit of a function needs only a trace."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from fxlens.ipc.processes import memory_of
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits

from .answers import Answers
from .forked import ForkWorker
from .outcome import Event, OnEvent, Outcome, WorkerUnavailable

_MOST = 3
_LARGEST = 2 << 30
_IDLE_SECONDS = 0.15
_REHEARSE_SECONDS = 0.2
_TRACED = 6
"""The file is rehearsed again after so many edits that needed a trace, since their changes may be permanent."""
_AGAIN_SECONDS = 1.0
"""Seconds without an edit before that: it pays off once the user edits elsewhere, but would delay the next edit."""
_REHEARSALS = 3
"""After so many useless ones in a row, there are no more."""
_UNFIT_SECONDS = 1.0
"""Seconds to wait after an edit that did not fit the kept file, since another one is likely."""


class KeptFile:
    """One file that is executed in ``worker``, with the results for its models so far."""

    def __init__(self, worker: ForkWorker) -> None:
        self.worker = worker
        self.same: list[str] = []
        """The models of the last text that were not traced again."""
        self._answers: Answers | None = None
        self._rehearsing: asyncio.Task[None] | None = None
        self._begun = False
        self._useless = 0
        self._traced = 0

    async def run(self, message: Data, limits: Limits, on_event: OnEvent) -> Outcome | None:
        """Runs the job in a fork of the process; None if the file must be executed again."""
        if self._rehearsing is not None and not self._begun:
            self._rehearsing.cancel()
        unfit = unknown = parsed = False
        models = 0
        answers = self._answers or Answers(message)
        telling = answers.telling()
        self.same = telling.same

        def observe(event: Event) -> None:
            nonlocal unfit, unknown, parsed, models
            kind = event.get("event")
            unfit, unknown = unfit or kind == "unfit", unknown or kind == "unknown"
            parsed = parsed or kind == "diagnosed"
            models += kind in ("target", "same")
            for each in telling.told(event):
                on_event(each)

        outcome = await self.worker.run(answers.added_to(message), limits, observe)
        if unfit or outcome.early or not self.worker.alive:
            return None
        if parsed:
            self.worker.before = message
        self._traced += len(telling.same) < models
        again = unknown or self._traced >= _TRACED
        if again and models > 1 and outcome.end == "done" and (self._rehearsing is None or self._rehearsing.done()):
            self.rehearse(message, limits, _REHEARSE_SECONDS if unknown else _AGAIN_SECONDS)
        return outcome

    def rehearse(self, message: Data, limits: Limits, rest: float = _REHEARSE_SECONDS) -> None:
        """Learns what each model depends on, after a short idle time."""
        if self._useless < _REHEARSALS:
            self._begun = False
            self._rehearsing = asyncio.get_running_loop().create_task(self._rehearse(message, limits, rest))

    async def _rehearse(self, message: Data, limits: Limits, rest: float) -> None:
        await asyncio.sleep(rest)
        self._begun = True  # it has low priority, and helps the coming edits
        answers = Answers(message)
        try:
            outcome = await self.worker.run({**message, "rehearse": True}, limits, answers.take)
        except WorkerUnavailable:
            return
        if answers.complete(outcome):
            self._answers, self._useless, self._traced = answers, 0, 0
        else:
            self._useless += 1

    async def close(self) -> None:
        """Ends its processes."""
        if self._rehearsing is not None:
            self._rehearsing.cancel()
            await asyncio.gather(self._rehearsing, return_exceptions=True)
        await self.worker.close()


class KeptFiles:
    """The kept files of one pool, by path; the least recently used one ends when there are too many.  ``again`` tells
    whether a file will be traced again, as an open one will."""

    def __init__(self, again: Callable[[str], bool] = lambda path: True) -> None:
        self._again = again
        self._ready: OrderedDict[str, KeptFile] = OrderedDict()
        self._coming: dict[str, asyncio.Task[None]] = {}
        self._unfit: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, message: Data, limits: Limits, on_event: OnEvent) -> Outcome | None:
        """Runs a trace in a fork of the process that keeps its file; None if there is none that fits."""
        path = str(message["path"])
        self._leave(path)  # it would keep an old text
        file = self._ready.get(path)
        if file is None:
            return None
        outcome = None
        if file.worker.alive:
            self._ready.move_to_end(path)
            outcome = await file.run(message, limits, on_event)
        if outcome is None:
            self._unfit.add(path)
        if outcome is None or outcome.end in ("timeout", "overtime"):  # it may wait for what an earlier fork has left
            self._drop(path, file)
        return outcome

    async def ask(self, message: Data, limits: Limits, on_event: OnEvent) -> Outcome | None:
        """Another job than a trace, with a text that may be that of an earlier trace; None as in `run`."""
        file = self._ready.get(str(message["path"]))
        if file is None or not file.worker.alive:
            return None
        unfit = False

        def observe(event: Event) -> None:
            nonlocal unfit
            unfit = unfit or event.get("event") == "unfit"
            on_event(event)

        outcome = await file.worker.run(message, limits, observe)
        return None if unfit or outcome.early or not file.worker.alive else outcome

    def _drop(self, path: str, file: KeptFile) -> None:
        if self._ready.get(path) is file:
            del self._ready[path]
            self._end(file)

    def forget(self, path: str) -> None:
        """Forget a file that is no longer open."""
        self._unfit.discard(path)
        self._leave(path)
        file = self._ready.get(path)
        if file is not None:
            self._drop(path, file)

    def _leave(self, path: str) -> None:
        """Ends what is being made of a file."""
        if (coming := self._coming.pop(path, None)) is not None:
            coming.cancel()
            self._ending.add(coming)
            coming.add_done_callback(self._ending.discard)

    def learn(self, message: Data, limits: Limits, worker: ForkWorker) -> None:
        """A job has traced the file on ``worker``: keep the file after a short idle time."""
        path = str(message["path"])
        if path not in self._ready and path not in self._coming and self._again(path):
            self._coming[path] = asyncio.get_running_loop().create_task(self._make(path, message, limits, worker))

    async def _make(self, path: str, message: Data, limits: Limits, worker: ForkWorker) -> None:
        wanted = False
        try:
            await asyncio.sleep(_UNFIT_SECONDS if path in self._unfit else _IDLE_SECONDS)
            if not worker.alive or self._coming.get(path) is not asyncio.current_task():
                return
            made = KeptFile(await worker.keep(message, limits))
        except WorkerUnavailable:
            return
        finally:
            if self._coming.get(path) is asyncio.current_task():
                wanted = self._again(path)  # it may have been closed since
                del self._coming[path]
        if not wanted or (made.worker.pid is not None and memory_of(made.worker.pid) > _LARGEST):
            self._end(made)
            return
        self._unfit.discard(path)
        self._ready[path] = made
        made.rehearse(message, limits)
        while len(self._ready) > _MOST:
            self._end(self._ready.popitem(last=False)[1])

    def _end(self, file: KeptFile) -> None:
        ending = asyncio.get_running_loop().create_task(file.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        for task in list(self._coming.values()):
            task.cancel()
        await asyncio.gather(*self._coming.values(), return_exceptions=True)
        self._coming.clear()
        ready, self._ready = list(self._ready.values()), OrderedDict()
        for file in ready:
            await file.close()
        await asyncio.gather(*self._ending, return_exceptions=True)
        self._unfit.clear()

    def describe(self) -> list[str]:
        """The files that are kept."""
        return list(self._ready)
