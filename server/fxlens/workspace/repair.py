"""Watches an interpreter that cannot run models, until it is created, replaced, or gets a package."""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import Callable

from .environment import Environment
from .tasks import Tasks

_LOOK_SECONDS = 1.0
State = tuple[object, ...]


class Repair:
    """``again(folder)`` is called when the interpreter of a folder was replaced or changed, after a second without
    further changes."""

    def __init__(self, environment: Environment, tasks: Tasks, again: Callable[[str | None], None]) -> None:
        self._environment, self._tasks, self._again = environment, tasks, again
        self._watched: dict[str | None, asyncio.Task[None]] = {}

    def watch(self, folder: str | None) -> None:
        """Starts watching until it changes."""
        if folder not in self._watched:
            self._watched[folder] = self._tasks.start(self._watch(folder))

    def end(self) -> None:
        for task in self._watched.values():
            task.cancel()
        self._watched.clear()

    async def _watch(self, folder: str | None) -> None:
        first = last = self._state(folder)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._state(folder)
            # A package being installed changes repeatedly.
            if now != first and now == last:
                break
            last = now
        self._watched.pop(folder, None)
        pool = self._environment.pool(folder)
        if not pool.hello:
            await pool.restart()
        self._again(folder)

    def _state(self, folder: str | None) -> State:
        """A state that changes with the interpreter."""
        python = self._environment.launch(folder).python
        root = os.path.dirname(os.path.dirname(python))
        packages = [
            *glob.glob(os.path.join(root, "lib", "python3*", "site-packages")),
            os.path.join(root, "Lib", "site-packages"),
        ]
        torch = [os.path.join(each, "torch") for each in packages]
        return (python, *(_stamp(path) for path in (python, *packages, *torch)))


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
