"""Workers that have a file's installed packages imported already, so that an edit executes workspace modules only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from .forked import ForkWorker
from .outcome import WorkerUnavailable

_MOST = 3


class Branches:
    """Branches of one zygote, by what they have imported; the least recently used one ends when there are too many.

    Packages that start threads when imported, or that do not survive their import, get no branch: a fork of theirs
    would not be safe, and files that use them go on importing them for themselves.
    """

    def __init__(self) -> None:
        self._needs: dict[str, frozenset[str]] = {}
        self._ready: OrderedDict[frozenset[str], ForkWorker] = OrderedDict()
        self._coming: dict[frozenset[str], asyncio.Task] = {}
        self._refused: set[frozenset[str]] = set()

    def worker_for(self, path: str, base: ForkWorker) -> ForkWorker:
        """The smallest branch that has all that the file's jobs imported, or else the one that has most of it and
        nothing beside; ``base`` where there is neither.

        A file's jobs differ in what they import (a lowering needs more than a trace): while the branch for all of
        them is made, the one for some of them is still better than none."""
        needs = self._needs.get(path)
        if not needs:
            return base
        for modules in [modules for modules, worker in self._ready.items() if not worker.alive]:
            del self._ready[modules]
            self._refused.add(modules)
        if fitting := [modules for modules in self._ready if needs <= modules]:
            best = min(fitting, key=len)
        elif partial := [modules for modules in self._ready if modules <= needs]:
            best = max(partial, key=len)
        else:
            return base
        self._ready.move_to_end(best)
        return self._ready[best]

    def learn(self, path: str, modules: list[str], base: ForkWorker, had: ForkWorker) -> None:
        """A job of the file imported these modules beside those that ``had``, the worker that ran it, has."""
        known = next((names for names, worker in self._ready.items() if worker is had), frozenset())
        if not modules:
            self._needs.setdefault(path, known)
            return
        needs = known | frozenset(modules)
        self._needs[path] = needs
        if needs in self._refused or needs in self._coming or any(needs <= names for names in self._ready):
            return
        order = [*sorted(known), *modules]
        self._coming[needs] = asyncio.get_running_loop().create_task(self._make(needs, order, base))

    async def _make(self, needs: frozenset[str], order: list[str], base: ForkWorker) -> None:
        try:
            self._ready[needs] = await base.branch(order)
        except WorkerUnavailable:
            self._refused.add(needs)
        finally:
            self._coming.pop(needs, None)
        while len(self._ready) > _MOST:
            _, oldest = self._ready.popitem(last=False)
            await oldest.close()

    async def close(self) -> None:
        for task in list(self._coming.values()):
            task.cancel()
        await asyncio.gather(*self._coming.values(), return_exceptions=True)
        ready, self._ready = list(self._ready.values()), OrderedDict()
        for worker in ready:
            await worker.close()
        self._needs.clear()
        self._refused.clear()

    def describe(self) -> list[list[str]]:
        """The top-level packages of each branch."""
        return [sorted({name.partition(".")[0] for name in modules}) for modules in self._ready]
