"""How far a job has come: what its process says, with fork and without."""

from __future__ import annotations

import asyncio
import logging

from fxlens.ipc import protocol
from fxlens.ipc.protocol import Json

from .outcome import Event, OnEvent
from .watch import Watch

log = logging.getLogger(__name__)


class Progress:
    """``end`` is how the job ended, as in `Outcome`, and None until then; ``step`` the last step that it began."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.end: str | None = None
        self.step: Event = {}

    async def follow(self, reader: asyncio.StreamReader, on_event: OnEvent) -> None:
        """Reads events until the job has ended, or its process says no more."""
        while self.end is None:
            try:
                event = await receive(reader)
            except protocol.ProtocolError:
                self.end = self.end or "lost"
                return
            if event is None or self.end is not None:
                return
            self._take(event, on_event)

    def _take(self, event: Event, on_event: OnEvent) -> None:
        kind = event.get("event")
        if kind == "done":
            self.end = "done"
            return
        if kind == "step":
            self.step = event
            self.watch.step()
        elif kind == "idle":
            self.watch.pause()
        try:
            on_event(event)
        except (KeyError, TypeError, AttributeError):  # user code wrote it
            log.warning("a job sent what cannot be read", exc_info=True)
            self.end = "lost"


async def receive(reader: asyncio.StreamReader) -> Json | None:
    """The next message of a process; None where it says no more.  Raises ProtocolError for what is no message."""
    try:
        size = protocol.body_size(await reader.readexactly(protocol.HEADER_SIZE))
        return protocol.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
