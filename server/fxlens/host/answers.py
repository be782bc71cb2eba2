"""Results of a kept file's rehearsal for each model, which are reused for models that an edit has not changed, with the
lines of the new text."""

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
"""A name without the numeric suffix that a fix may have added to make it unique."""


@dataclass
class Answers:
    """The events of one rehearsal: for each model the ``target`` and, if it has one, the ``graph``."""

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
            found.spells = True  # moving its lines would take the server too long
        return found

    def complete(self, outcome: Outcome) -> bool:
        """Whether they can be reused: a model that prints must run each time."""
        return outcome.end == "done" and self._learnt is not None and outcome.output == self._learnt["printed"]

    def added_to(self, message: Data) -> Data:
        """The message for a job that may skip unchanged models."""
        return {**message, "learnt": self._learnt} if _asks(message) == _asks(self.message) else message

    def telling(self) -> Telling:
        """For one job."""
        return Telling(str(self.message["path"]), self._targets, self._graphs)


@dataclass
class Telling:
    """Inserts reused answers into the events of one job; ``same`` are the models that it need not trace."""

    _path: str
    _targets: Mapping[str, Event]
    _graphs: Mapping[str, Event]
    same: list[str] = field(default_factory=list)
    _lines: dict[int, int] = field(default_factory=dict)
    """The mapping of lines, if the answers are at other lines now."""

    def told(self, event: Event) -> Iterator[Event]:
        """The event, or reused ones that replace or follow it."""
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
    """Parts of one model's answers that an edit elsewhere may affect: ``lines`` of the file, lines where ``edits`` of
    its fixes begin and end, the ``words`` that these write, and whether a text ``spells`` a line."""

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
                self.spells = True  # the index found an origin in this file, in the text at that time
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
    """Keys with lines of the file in a span, a model or an origin; the last two do not name the file."""
    file = value.get("file")
    if isinstance(value.get("line"), int) and (file is None or (file == path and "end_line" in value)):
        yield from (name for name in ("line", "end_line") if name in value)


def _asks(message: Data) -> Mapping[str, object]:
    """A job's request without its text; the lines in ``known`` may be those of an earlier one."""
    asked: dict[str, Any] = {name: each for name, each in message.items() if name not in _OF_THE_EDIT}
    asked["known"] = {
        name: (
            [{**each, "line": None} for each in (*said["construct"], *said["inputs"])],
            len(said["construct"]),
            said.get("aside"),
        )
        for name, said in asked["known"].items()
        if said["construct"] or said["inputs"] or said.get("aside")
    }
    return asked
