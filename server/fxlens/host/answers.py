"""What a kept file's rehearsal has said of each model, told again where an edit has not changed it, with the lines of
the new text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fxlens.ipc.protocol import Data

from .outcome import Event, Outcome

_OF_THE_EDIT = ("text", "cursor", "deadline", "stack_after", "skip")
_MOST_NODES = 2000
_WORD = re.compile(r"[^\W\d]\w*?(?=(?:_\d+)?\b)")
"""A name without the number that a fix may have given it, since there was one of that name already."""


@dataclass
class Answers:
    """The events of one rehearsal: of each model the ``target`` and, where it has one, the ``graph``."""

    message: Data
    _targets: dict[str, Event] = field(default_factory=dict)
    _graphs: dict[str, Event] = field(default_factory=dict)
    _learnt: Event | None = None

    def take(self, event: Event) -> None:
        kind = event.get("event")
        if kind == "target":
            self._targets[event["target"]["name"]] = event
        elif kind == "graph":
            self._graphs[event["target"]] = event
        elif kind == "learnt":
            said = {name: self._mentioned(name).sent() for name in self._targets}
            self._learnt = {**event, "said": said}

    def _mentioned(self, name: str) -> _Mentioned:
        found, graph = _Mentioned(str(self.message["path"])), self._graphs.get(name)
        found.look_at(self._targets[name])
        if graph is None or len(graph["graph"]["nodes"]) <= _MOST_NODES:
            found.look_at(graph)
        else:
            found.spells = True  # to move its lines would take the server too long
        return found

    def complete(self, outcome: Outcome) -> bool:
        """Whether they can be told again: a model that prints does so each time."""
        return outcome.end == "done" and self._learnt is not None and outcome.output == self._learnt["printed"]

    def added_to(self, message: Data) -> Data:
        """The message of a job that need not say again what has not changed."""
        return {**message, "learnt": self._learnt} if _asks(message) == _asks(self.message) else message

    def telling(self) -> Telling:
        """For one job."""
        return Telling(str(self.message["path"]), self._targets, self._graphs)


@dataclass
class Telling:
    """The answers in the events of one job; ``same`` are the models that it need not trace."""

    _path: str
    _targets: Mapping[str, Event]
    _graphs: Mapping[str, Event]
    same: list[str] = field(default_factory=list)
    _lines: dict[int, int] = field(default_factory=dict)
    """Of the answers, where they are at another place now."""

    def told(self, event: Event) -> Iterator[Event]:
        """The event; or the earlier ones that take its place or follow it."""
        kind = event.get("event")
        if kind == "lines":
            for first, to, count in event["stretches"]:
                self._lines.update(zip(range(first, first + count), range(to, to + count), strict=True))
        elif kind == "same":
            self.same.append(event["target"])
            yield self._moved(self._targets[event["target"]])
        else:
            yield event
        if kind == "diagnosed":
            yield from (self._moved(self._graphs[name]) for name in self.same if name in self._graphs)

    def _moved(self, value: Any) -> Any:
        if not self._lines:
            return value
        if isinstance(value, list):
            return [self._moved(each) for each in value]
        if not isinstance(value, dict):
            return value
        found = {name: self._moved(each) if isinstance(each, (dict, list)) else each for name, each in value.items()}
        for name in _lines_in(value, self._path):
            found[name] = self._lines.get(value[name], value[name])
        return found


@dataclass
class _Mentioned:
    """What the answers of one model say that an edit elsewhere may change: ``lines`` of the file, those that ``edits``
    of its fixes begin and end on, the ``words`` that these write, and whether a text ``spells`` a line."""

    path: str
    lines: set[int] = field(default_factory=set)
    edits: set[int] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    spells: bool = False

    def __post_init__(self) -> None:
        self._spelled = re.compile(rf"\blines? \d|{re.escape(os.path.basename(self.path))}:\d")

    def look_at(self, value: Any) -> None:
        if isinstance(value, dict):
            lines = {value[name] for name in _lines_in(value, self.path)}
            self.lines |= lines
            if "end_column" in value and "text" in value:  # an edit
                self.edits |= lines
                self.words.update(_WORD.findall(value["text"]))
            if value.get("file") == self.path and "end_line" not in value:
                self.spells = True  # an origin in this file that the index has found, in a text that it has read
            for each in value.values():
                self.look_at(each)
        elif isinstance(value, list):
            for each in value:
                self.look_at(each)
        elif isinstance(value, str) and not self.spells:
            self.spells = self._spelled.search(value) is not None

    def sent(self) -> Data:
        """As data for the job."""
        return {
            "lines": sorted(self.lines), "edits": sorted(self.edits), "words": sorted(self.words),
            "spells": self.spells,
        }  # fmt: skip


def _lines_in(value: Mapping[str, Any], path: str) -> Iterator[str]:
    """Where a span, a model or an origin has lines of the file; the last two name none."""
    file = value.get("file")
    if isinstance(value.get("line"), int) and (file is None or (file == path and "end_line" in value)):
        yield from (name for name in ("line", "end_line") if name in value)


def _asks(message: Data) -> Mapping[str, object]:
    """What a job is asked for but for its text; the lines of what is ``known`` may be of an earlier one."""
    asked: dict[str, Any] = {name: each for name, each in message.items() if name not in _OF_THE_EDIT}
    asked["known"] = {
        name: (
            [{**each, "line": None} for each in (*said["construct"], *said["inputs"])],
            len(said["construct"]),
            said.get("aside"),
        )
        for name, said in asked["known"].items()
    }
    return asked
