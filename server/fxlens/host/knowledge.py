"""What is known of one folder beside its files' own texts: the index of its Python files, and recorded runs."""

from __future__ import annotations

import asyncio
import logging
import os

from fxlens.sources import files, known, recorded
from fxlens.sources.known import Known
from fxlens.sources.paths import cache_folder

from .index_client import IndexClient

log = logging.getLogger(__name__)


class Knowledge:
    """Of one folder.  The index is built in a process of its own, which reads and never executes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._index = IndexClient(folder, store=str(cache_folder("index")))
        self._starting: asyncio.Task[None] | None = None
        self._closed = False
        self._examples: tuple[tuple[int, int] | None, recorded.Examples] = (None, {})

    async def start(self) -> None:
        """Begins to build the index, where that has not begun yet."""
        if self._starting is None:
            if self._closed:
                return
            self._starting = asyncio.get_running_loop().create_task(self._index.start())
        await asyncio.shield(self._starting)

    async def of_file(self, path: str) -> dict[str, Known]:
        """What is known of the classes of a file, once the index is built."""
        await self.start()
        answer = await self._index.answers(path)
        found = known.from_index(answer["answers"], path, self.folder) if answer else {}
        return known.merged(self.recorded_for(path), found)

    def recorded_for(self, path: str) -> dict[str, Known]:
        """What recorded runs say, which needs no index."""
        return known.from_recorded(self._recorded(), self.folder, path)

    def update(self, path: str, text: str | None) -> None:
        """A file has changed in the editor, or on disk (``text`` is None)."""
        if self._starting is not None:
            self._index.update(path, text)

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None:
            await asyncio.wait({self._starting})
            await self._index.close()

    def _recorded(self) -> recorded.Examples:
        """The recorded examples, read again where their file has changed."""
        path = os.path.join(self.folder, recorded.NAME)
        try:
            state = os.stat(path)
        except OSError:
            return {}
        stamp = (state.st_mtime_ns, state.st_size)
        if self._examples[0] != stamp:
            examples: recorded.Examples = {}
            try:
                examples = recorded.parse(files.read_bytes(path, recorded.MOST_BYTES).decode("utf-8"))
            except (OSError, ValueError) as error:
                log.warning("%s cannot be read: %s", path, error)
            self._examples = (stamp, examples)
        return self._examples[1]
