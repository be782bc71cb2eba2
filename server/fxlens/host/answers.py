"""What a kept file's rehearsal has said of each model, told again where an edit has not changed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fxlens.ipc.protocol import Data

from .outcome import Event, Outcome

_OF_THE_EDIT = ("text", "cursor", "deadline", "stack_after", "skip")


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
            self._learnt = event

    def complete(self, outcome: Outcome) -> bool:
        """Whether they can be told again: a model that prints does so each time."""
        return outcome.end == "done" and self._learnt is not None and outcome.output == self._learnt["printed"]

    def added_to(self, message: Data) -> Data:
        """The message of a job that need not say again what has not changed."""
        return {**message, "learnt": self._learnt} if _asks(message) == _asks(self.message) else message

    def told(self, same: list[str], event: Event) -> Iterator[Event]:
        """The event; or the earlier ones that take its place or follow it.  ``same`` gathers the names."""
        kind = event.get("event")
        if kind == "same":
            same.append(event["target"])
            yield self._targets[event["target"]]
            return
        yield event
        if kind == "diagnosed":
            yield from (self._graphs[name] for name in same if name in self._graphs)


def _asks(message: Data) -> Mapping[str, object]:
    return {name: each for name, each in message.items() if name not in _OF_THE_EDIT}
