"""Knowledge of one folder besides its files' own texts: the index of its Python files, and recorded runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Sequence
from typing import TypeAlias

from fxlens.sources import files, known, recorded
from fxlens.sources.known import Known
from fxlens.sources.paths import cache_folder

from .index_client import IndexClient

log = logging.getLogger(__name__)


_LARGE = 1 << 16
"""Bytes.  A larger file is parsed in a thread (`Knowledge.read_recorded`): tomllib takes seconds for megabytes."""
_Stamp: TypeAlias = tuple[int, int]


class Knowledge:
    """Of one folder. The index is built in a separate process, which reads files and never executes them."""

    def __init__(self, folder: str, linked: Sequence[str] = ()) -> None:
        """``linked`` are files below linked folders that belong to it, which the index does not find by itself."""
        self.folder = folder
        self._linked = linked
        self._index = IndexClient(folder, store=str(cache_folder("index")))
        self._starting: asyncio.Task[None] | None = None
        self._closed = False
        self._examples: tuple[_Stamp | None, recorded.Examples] = (None, {})
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts building the index, if not started yet."""
        if self._starting is None:
            if self._closed:
                return
            self._starting = asyncio.get_running_loop().create_task(self._index.start())
            for path in self._linked:
                self._index.update(path, None)
        await asyncio.shield(self._starting)

    async def of_file(self, path: str) -> dict[str, Known] | None:
        """Knowledge of the classes of a file, once the index is built; None if there is no index, and so nothing is
        known but `recorded_for`."""
        await self.start()
        answer = await self._index.answers(path)
        await self.read_recorded()
        if answer is None:
            return None
        return known.merged(self.recorded_for(path), known.from_index(answer["answers"], path, self.folder))

    def recorded_for(self, path: str) -> dict[str, Known]:
        """The entries of recorded runs, which need no index. While they are read again, those before."""
        stamp = self._stamp()
        if self._examples[0] != stamp and (self._reading is None or self._reading.done()):
            self._examples = (stamp, self._parsed())
        return known.from_recorded(self._examples[1], self.folder, path)

    async def read_recorded(self) -> None:
        """Reads the recorded examples in a thread if their file has changed and is large, since `recorded_for` would
        block the event loop."""
        stamp = self._stamp()
        if stamp is None or stamp[1] <= _LARGE or self._examples[0] == stamp:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read(stamp))
        await asyncio.shield(self._reading)  # an edit cancels the waiting task

    async def _read(self, stamp: _Stamp) -> None:
        # The collector would go through everything that is parsed, again and again, while all other threads wait.
        gc.disable()
        try:
            self._examples = (stamp, await asyncio.to_thread(self._parsed))
        finally:
            gc.freeze()
            gc.enable()

    def update(self, path: str, text: str | None) -> None:
        """Handle a change of a file in the editor, or on disk (``text`` is None)."""
        if self._starting is not None:
            self._index.update(path, text)

    async def gone(self, path: str) -> bool:
        """Whether a path that is no more was a folder with files that are read, now forgotten."""
        return self._starting is not None and await self._index.gone(path)

    async def look_again(self, whole: bool) -> bool:
        """Whether files have changed that nobody has told (`IndexClient.look_again`)."""
        return self._starting is not None and await self._index.look_again(whole)

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            await asyncio.wait({self._starting})
            await self._index.close()

    def _path(self) -> str:
        return os.path.join(self.folder, recorded.NAME)

    def _stamp(self) -> _Stamp | None:
        """The state of the file of recorded examples; None if there is none."""
        try:
            state = os.stat(self._path())
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size

    def _parsed(self) -> recorded.Examples:
        try:
            return recorded.parse(files.read_bytes(self._path(), recorded.MOST_BYTES).decode("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", self._path(), error)
            return {}
