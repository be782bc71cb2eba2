"""Workers that keep a file executed and its models constructed, so that an edit of a forward is only traced."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from fxlens.ipc.processes import memory_of
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits

from .forked import ForkWorker
from .outcome import WorkerUnavailable

_MOST = 3
_LARGEST = 2 << 30
_IDLE_SECONDS = 0.15
_UNFIT_SECONDS = 1.0
"""After an edit that a kept file had no use for there is likely to be another one."""


class KeptFiles:
    """The kept files of one pool, by path; the least recently used one ends when there are too many."""

    def __init__(self) -> None:
        self._ready: OrderedDict[str, ForkWorker] = OrderedDict()
        self._coming: dict[str, asyncio.Task[None]] = {}
        self._unfit: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def worker_for(self, path: str) -> ForkWorker | None:
        """The worker that keeps this file, where there is one."""
        self._coming.pop(path, None)  # the text has changed: it would keep an old one
        worker = self._ready.get(path)
        if worker is None:
            return None
        if not worker.alive:
            self.drop(path)
            return None
        self._ready.move_to_end(path)
        return worker

    def drop(self, path: str) -> None:
        """What is kept of the file is out of date."""
        self._unfit.add(path)
        worker = self._ready.pop(path, None)
        if worker is not None:
            self._end(worker)

    def forget(self, path: str) -> None:
        """The file is not open any more."""
        self._unfit.discard(path)
        self._coming.pop(path, None)
        worker = self._ready.pop(path, None)
        if worker is not None:
            self._end(worker)

    def learn(self, message: Data, limits: Limits, worker: ForkWorker) -> None:
        """A job has traced the file on ``worker``: it is kept from now on, once nothing happens for a moment."""
        path = str(message["path"])
        if path not in self._ready and path not in self._coming:
            self._coming[path] = asyncio.get_running_loop().create_task(self._make(path, message, limits, worker))

    async def _make(self, path: str, message: Data, limits: Limits, worker: ForkWorker) -> None:
        wanted = False
        try:
            await asyncio.sleep(_UNFIT_SECONDS if path in self._unfit else _IDLE_SECONDS)
            if not worker.alive or self._coming.get(path) is not asyncio.current_task():
                return
            made = await worker.keep(message, limits)
        except WorkerUnavailable:
            return
        finally:
            if self._coming.get(path) is asyncio.current_task():
                wanted = True
                del self._coming[path]
        if not wanted or (made.pid is not None and memory_of(made.pid) > _LARGEST):
            self._end(made)
            return
        self._unfit.discard(path)
        self._ready[path] = made
        while len(self._ready) > _MOST:
            self._end(self._ready.popitem(last=False)[1])

    def _end(self, worker: ForkWorker) -> None:
        ending = asyncio.get_running_loop().create_task(worker.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        for task in list(self._coming.values()):
            task.cancel()
        await asyncio.gather(*self._coming.values(), return_exceptions=True)
        self._coming.clear()
        ready, self._ready = list(self._ready.values()), OrderedDict()
        for worker in ready:
            await worker.close()
        await asyncio.gather(*self._ending, return_exceptions=True)
        self._unfit.clear()

    def describe(self) -> list[str]:
        """The files that are kept."""
        return list(self._ready)
