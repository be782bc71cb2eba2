"""Files that results depend on and whose changes the client does not report: those outside of the workspace's folders,
and all of them where it watches none. They are looked at every two seconds, in a thread and by the index."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from fxlens.config.project import configurations
from fxlens.sources.files import changed_since, state_of
from fxlens.sources.paths import is_within

from . import watched_files
from .folders import folders

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

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
            self._looking = self._server.tasks.start(self._look())

    async def _look(self) -> None:
        while self._server.session.documents:
            self._awake.clear()
            began, places, inside = self._depended_on(), self._places(), folders(self._server)
            for path in await asyncio.to_thread(self._changed, began, places, inside):
                watched_files.tell(self._server, path)
            if (self._around is None or self._around.done()) and time.monotonic() > self._not_before:
                self._around = self._server.tasks.start(self._look_around())
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
                for path in document.record["files"]:
                    found[path] = max(found.get(path, 0), document.record_began.of_files)
        return found

    def _places(self) -> dict[tuple[str, str], int]:
        """The folders of the documents whose configuration counts, each with the one up to which it is looked for."""
        found: dict[tuple[str, str], int] = {}
        for document in self._server.session.documents.values():
            if document.record_began is not None:
                place = os.path.dirname(document.path), document.folder or os.path.dirname(document.path)
                found[place] = max(found.get(place, 0), document.record_began.of_files)
        return found

    def _changed(self, began: dict[str, int], places: dict[tuple[str, str], int], inside: list[str]) -> list[str]:
        """Those that changed since they were last looked at, or, the first time, since that execution began."""
        changed, states, watched = [], {}, dict[str, bool]()
        began = {path: since for place, since in places.items() for path in configurations(*place)} | began
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
