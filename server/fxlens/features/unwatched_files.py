"""Files that results depend on and whose changes the client does not report: those outside of the workspace's folders,
and all of them where it watches none. They are looked at every two seconds, in a thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fxlens.config.project import configurations
from fxlens.sources.files import changed_since, state_of
from fxlens.sources.paths import is_within

from . import watched_files
from .folders import folders

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_LOOK_SECONDS = 2.0


def register(server: FxLensServer) -> None:
    looker = _Looker(server)
    server.on_traced.append(lambda ls, document: looker.wake())


class _Looker:
    def __init__(self, server: FxLensServer) -> None:
        self._server = server
        self._states: dict[str, object] = {}
        self._inside: dict[str, bool] = {}
        self._folders: list[str] = []
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Looks now, and from now on: a state is compared with the one before."""
        self._awake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())
            self._server.background.add(self._task)
            self._task.add_done_callback(self._server.background.discard)

    async def _look(self) -> None:
        while self._server.session.documents:
            self._awake.clear()
            if (now := folders(self._server)) != self._folders:
                self._folders, self._inside = now, {}
            began = self._depended_on()
            for path in await asyncio.to_thread(self._changed, began):
                watched_files.tell(self._server, path)
            try:
                await asyncio.wait_for(self._awake.wait(), _LOOK_SECONDS)
            except asyncio.TimeoutError:
                continue
        self._states.clear()

    def _depended_on(self) -> dict[str, int]:
        """These files, and when the last execution that depends on each began."""
        found: dict[str, int] = {}
        for document in self._server.session.documents.values():
            if document.record is not None and document.record_began is not None:
                for path in (*document.record["files"], *self._configurations(document)):
                    found[path] = max(found.get(path, 0), document.record_began.of_files)
        return found

    def _configurations(self, document: Document) -> Iterator[str]:
        if not self._server.watches_files:
            yield from configurations(os.path.dirname(document.path), document.folder or os.path.dirname(document.path))

    def _changed(self, began: dict[str, int]) -> list[str]:
        """Those that changed since they were last looked at, or, the first time, since that execution began."""
        changed = []
        states = {}
        for path, since in began.items():
            if self._server.watches_files and self._is_inside(path):
                continue
            state = states[path] = state_of(path)
            is_new = path not in self._states
            if state != self._states.get(path, state) or (is_new and state is not None and changed_since(path, since)):
                changed.append(os.path.normpath(path))
        self._states = states
        return changed

    def _is_inside(self, path: str) -> bool:
        if path not in self._inside:
            self._inside[path] = is_within(path, self._folders)
        return self._inside[path]
