"""The progress of a job, from the messages of its process, with and without fork."""

from __future__ import annotations

import asyncio
import logging

from fxlens.ipc import protocol
from fxlens.ipc.protocol import Data, Json
from fxlens.sources.targets import class_count

from .outcome import Event, OnEvent
from .watch import Watch

log = logging.getLogger(__name__)

_OF_A_CLASS = 6  # constructed at most twice, arguments and inputs searched, traced, graph sent
_OF_A_FILE = 3
_OF_A_MODEL = 40  # lowered or timed on request, with a stage for each part or size
_ANSWERS = ("result", "refused", "failed")


def steps_of(message: Data) -> int:
    """The number of steps whose time the whole job may take, computed from the text, since user code could announce any
    number of steps."""
    return _OF_A_FILE + _OF_A_CLASS * class_count(str(message["text"])) + (_OF_A_MODEL if "options" in message else 0)


class Progress:
    """``end`` is how the job ended, as in `Outcome`, and None until then; ``step`` the last step that it began.

    Only a job that ``waits`` for further requests may be idle, after its last answer.
    """

    def __init__(self, watch: Watch, waits: bool = False) -> None:
        self.watch = watch
        self.end: str | None = None
        self.step: Event = {}
        self.refused = ""
        """Why its message was not read."""
        self._waits = waits
        self._answered = False

    def go_on(self) -> None:
        """Restart for a further request."""
        self._answered = False
        self.watch.go_on()

    async def follow(self, reader: asyncio.StreamReader, on_event: OnEvent) -> None:
        """Reads events until the job has ended, or its process closes the channel."""
        while self.end is None:
            try:
                event = await receive(reader)
            except protocol.ProtocolError as error:
                self.end, self.refused = self.end or "lost", str(error)
                return
            if event is None or self.end is not None:
                return
            self._take(event, on_event)

    def _take(self, event: Event, on_event: OnEvent) -> None:
        kind = event.get("event")
        if kind == "done":
            self.end = "done"
            return
        self._answered = self._answered or kind in _ANSWERS
        try:
            if kind == "step":
                self.step = _step(event)
                self.watch.step()
            elif kind == "idle" and self._waits and self._answered:
                self.watch.pause()
            on_event(event)
        except (LookupError, TypeError, ValueError, AttributeError):  # written by user code
            log.warning("a job sent what cannot be read", exc_info=True)
            self.end = "lost"


def _step(event: Event) -> Event:
    """A step as announced by a job. Raises TypeError for anything else."""
    line = event.get("line")
    if not isinstance(event.get("step"), str) or not isinstance(event.get("target"), str | None):
        raise TypeError("a step without its name")
    if not isinstance(line, int | None) or (line is not None and not 0 < line < 1 << 31):
        raise TypeError("a step at no line")
    return event


async def receive(reader: asyncio.StreamReader) -> Json | None:
    """The next message of a process; None at the end. Raises ProtocolError for an invalid message."""
    try:
        size = protocol.body_size(await reader.readexactly(protocol.HEADER_SIZE))
        body = await reader.readexactly(size)
        if size > protocol.LARGE:
            return await asyncio.to_thread(protocol.decode, body, patient=True)
        return protocol.decode(body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
