"""Workers that have already imported a file's installed packages, so that an edit executes workspace modules only."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict

from .forked import ForkWorker
from .outcome import WorkerUnavailable

_MOST = 3
_TRIES = 2
_LOOK = 0.1  # seconds
_EVERYWHERE = {"torch", "numpy"}
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)


class Branches:
    """Branches of one zygote, by imported modules; the least recently used one ends when there are too many.

    Packages that start threads when imported, or crash, get no branch: forking after them would not be safe, and files
    that use them import them in each job. With ``once``, when each file has only one job, a branch is made once a
    second file needs the same.
    """

    def __init__(self, once: bool = False) -> None:
        self._files = 2 if once else 1
        self._needs: dict[str, frozenset[str]] = {}
        self._named: dict[frozenset[str], frozenset[str]] = {}
        """The names in a text that lead to all these modules, if it names any of them."""
        self._ready: OrderedDict[frozenset[str], ForkWorker] = OrderedDict()
        self._coming: dict[frozenset[str], asyncio.Task] = {}
        self._failed: Counter[frozenset[str]] = Counter()
        self._ending: set[asyncio.Task] = set()
        self._retired: list[ForkWorker] = []

    def worker_for(self, path: str, base: ForkWorker, text: str = "") -> ForkWorker:
        """The smallest branch with all modules that the file's jobs imported, or else the one with most of them and
        nothing else; ``base`` if there is neither. For a file without jobs so far, its text says what it imports.

        A file's jobs import different modules (a lowering needs more than a trace): until the branch for all of them is
        ready, one for some of them is better than none."""
        needs = self._needs[path] if path in self._needs else self._expected(text)
        if not needs:
            return base
        for modules, worker in [each for each in self._ready.items() if not each[1].alive]:
            del self._ready[modules]
            ending = asyncio.get_running_loop().create_task(worker.close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            self._count_failure(modules, worker.base)
        if fitting := [modules for modules in self._ready if needs <= modules]:
            best = min(fitting, key=len)
        elif partial := [modules for modules in self._ready if modules <= needs]:
            best = max(partial, key=len)
        else:
            return base
        self._ready.move_to_end(best)
        return self._ready[best]

    def _expected(self, text: str) -> frozenset[str]:
        """The modules that a file with these imports probably loads, as other files did."""
        names = _names(text) if self._named else frozenset()
        fitting = [modules for modules, named in self._named.items() if named <= names]
        return max(fitting, key=len, default=frozenset())

    def processes_of(self, path: str) -> set[int | None]:
        """The processes of all branches that have executed a file."""
        return set().union(*(worker.processes_of(path) for worker in [*self._ready.values(), *self._retired]))

    def learn(self, path: str, modules: list[str], base: ForkWorker, had: ForkWorker, text: str = "") -> None:
        """Record that a job of the file imported these modules besides those of ``had``, the worker that ran it."""
        if not modules:
            self._needs.setdefault(path, had.modules)
            return
        needs = self._needs[path] = had.modules | frozenset(modules)
        if named := _names(text) & _tops(needs):
            self._named[needs] = named
        if sum(each == needs for each in self._needs.values()) < self._files:
            return
        if self._failed[needs] >= _TRIES or needs in self._coming:
            return
        if any(needs <= names and worker.alive for names, worker in self._ready.items()):
            return
        order = [*sorted(had.modules), *modules]
        self._coming[needs] = asyncio.get_running_loop().create_task(self._make(needs, order, base))

    async def _make(self, needs: frozenset[str], order: list[str], base: ForkWorker) -> None:
        try:
            self._ready[needs] = await base.branch(order)
        except WorkerUnavailable:
            self._count_failure(needs, base)
        finally:
            self._coming.pop(needs, None)
        while len(self._ready) > _MOST:
            _, oldest = self._ready.popitem(last=False)
            self._retired.append(oldest)
            ending = asyncio.get_running_loop().create_task(self._retire(oldest))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _retire(self, worker: ForkWorker) -> None:
        """Ends a branch once its jobs are done, since they would have to be repeated."""
        while worker.busy and worker.alive:
            await asyncio.sleep(_LOOK)
        await worker.close()
        self._retired.remove(worker)

    def _count_failure(self, modules: frozenset[str], base: ForkWorker | None) -> None:
        """A branch that ended together with its zygote does not count against its packages."""
        if base is None or base.alive:
            self._failed[modules] += 1

    async def close(self) -> None:
        for task in list(self._coming.values()):
            task.cancel()
        await asyncio.gather(*self._coming.values(), return_exceptions=True)
        self._coming.clear()  # a task that had not started does not remove itself
        ready, self._ready = [*self._ready.values(), *self._retired], OrderedDict()
        for worker in ready:
            await worker.close()
        await asyncio.gather(*self._ending, return_exceptions=True)
        self._needs.clear()
        self._failed.clear()

    def describe(self) -> list[list[str]]:
        """The top-level packages of each branch."""
        return [sorted(_tops(modules)) for modules in self._ready]


def _names(text: str) -> frozenset[str]:
    """The packages that a text imports."""
    return frozenset(_IMPORT.findall(text)) - _EVERYWHERE


def _tops(modules: frozenset[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in modules)
