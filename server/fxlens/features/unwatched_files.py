"""Files that results depend on and whose changes the client does not report: those outside of the workspace's folders,
and all of them where it watches none. They are looked at every two seconds, in a thread and by the index."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from fxlens.config.project import configurations
from fxlens.sources.files import changed_since, state_of
from fxlens.sources.paths import is_within

from . import watched_files
from .folders import folders

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_LOOK_SECONDS = 2.0
_REST = 20
"""How much longer it waits than the index takes to look at a whole workspace."""


def register(server: FxLensServer) -> None:
    looker = _Looker(server)
    server.on_traced.append(lambda ls, document: looker.wake())


class _Looker:
    def __init__(self, server: FxLensServer) -> None:
        self._server = server
        self._states: dict[str, object] = {}
        self._awake = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._around: asyncio.Task[None] | None = None
        self._not_before = 0.0

    def wake(self) -> None:
        """Looks now, and from now on: a state is compared with the one before."""
        self._awake.set()
        if self._looking is None or self._looking.done():
            self._looking = self._started(self._look())

    def _started(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._server.background.add(task)
        task.add_done_callback(self._server.background.discard)
        return task

    async def _look(self) -> None:
        while self._server.session.documents:
            self._awake.clear()
            began, inside = self._depended_on(), folders(self._server)
            for path in await asyncio.to_thread(self._changed, began, inside):
                watched_files.tell(self._server, path)
            if (self._around is None or self._around.done()) and time.monotonic() > self._not_before:
                self._around = self._started(self._look_around())
            try:
                await asyncio.wait_for(self._awake.wait(), _LOOK_SECONDS)
            except asyncio.TimeoutError:
                continue
        self._states.clear()

    async def _look_around(self) -> None:
        start = time.monotonic()
        await self._server.session.look_around(whole=not self._server.watches_files)
        self._not_before = time.monotonic() + max(_LOOK_SECONDS, _REST * (time.monotonic() - start))

    def _depended_on(self) -> dict[str, int]:
        """These files, and when the last execution that depends on each began."""
        found: dict[str, int] = {}
        for document in self._server.session.documents.values():
            if document.record is not None and document.record_began is not None:
                for path in (*document.record["files"], *_configurations(document)):
                    found[path] = max(found.get(path, 0), document.record_began.of_files)
        return found

    def _changed(self, began: dict[str, int], inside: list[str]) -> list[str]:
        """Those that changed since they were last looked at, or, the first time, since that execution began."""
        changed, states, watched = [], {}, dict[str, bool]()
        for path, since in began.items():
            folder = os.path.dirname(path)
            if self._server.watches_files and folder not in watched:
                watched[folder] = is_within(folder, inside)
            if watched.get(folder) and (not os.path.islink(path) or is_within(path, inside)):
                continue
            state = states[path] = state_of(path)
            is_new = path not in self._states
            if state != self._states.get(path, state) or (is_new and state is not None and changed_since(path, since)):
                changed.append(os.path.normpath(path))
        self._states = states
        return changed


def _configurations(document: Document) -> Iterator[str]:
    here = os.path.dirname(document.path)
    return configurations(here, document.folder or here)
