"""Watches the interpreters of the folders with open documents: these are traced again when one is created or replaced,
or a package is installed, upgraded or removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .document import Document
from .environment import Environment
from .tasks import Tasks

_LOOK_SECONDS = 1.0


class Interpreters:
    """``documents(folder)`` are those whose models its interpreter runs; ``again(document)`` is called when that has
    changed, after a second without further changes."""

    def __init__(
        self,
        environment: Environment,
        tasks: Tasks,
        documents: Callable[[str | None], Sequence[Document]],
        again: Callable[[Document], None],
    ) -> None:
        self._environment, self._tasks = environment, tasks
        self._documents, self._again = documents, again
        self._watched: dict[str | None, asyncio.Task[None]] = {}

    def watch(self, folder: str | None) -> None:
        """Starts watching, until no document of the folder is open."""
        if folder not in self._watched:
            self._watched[folder] = self._tasks.start(self._watch(folder))

    def end(self) -> None:
        for task in self._watched.values():
            task.cancel()
        self._watched.clear()

    async def _watch(self, folder: str | None) -> None:
        pool, known, last = self._environment.pool(folder), None, None
        while self._documents(folder):
            await asyncio.sleep(_LOOK_SECONDS)
            if (now := self._environment.pool(folder)) is not pool:
                pool, known, last = now, None, None
                self._trace(folder)  # the interpreter was created, or is back
                for each in self._environment.unused({*self._watched}):
                    self._tasks.start(each.retire())
            elif pool.installed is not None:
                known = known or pool.installed.state
                found = await asyncio.to_thread(pool.installed.look)
                if found == last != known:  # a package that is being installed changes repeatedly
                    known = found
                    await pool.renew()
                    self._trace(folder)
                last = found
        del self._watched[folder]

    def _trace(self, folder: str | None) -> None:
        for document in self._documents(folder):
            self._again(document)
