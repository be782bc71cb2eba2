"""Exporting with sizes as symbols: the user expressions that gave a size a value or a condition."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fxlib.captures.places import is_users, iterated
from fxlib.captures.torch_side import audible
from fxlib.ir import span as spans
from fxlib.ir.span import Span

__all__ = ["Pin", "Symbols", "recorded"]

_LOGGER = "torch.fx.experimental.symbolic_shapes"
_CREATED = re.compile(r"create_symbol (\w+) = (-?\d+) for (.+?) (?:\[|VR)")
_SIZE = re.compile(r"^(?P<input>.+)\.size\(\)\[(?P<dim>\d+)\]$")
_REPLACED = re.compile(r"set_replacement (\w+) = (\S+)")
_GUARD = re.compile(r"eval (?P<expression>.+) \[guard added\]")


@dataclass(frozen=True)
class Pin:
    """An expression that made a size a constant, or equal to another. ``source`` is torch's name of the size,
    ``("L['x']", 0)``; ``value`` the constant or the source that it is equal to."""

    source: tuple[str, int]
    value: Any
    path: tuple[Span, ...]

    @property
    def span(self) -> Span | None:
        return self.path[-1] if self.path else None


@dataclass
class Symbols:
    """The sizes that became symbols, the expressions that fixed them, and the conditions that were assumed."""

    names: dict[str, tuple[str, int]] = field(default_factory=dict)
    pins: list[Pin] = field(default_factory=list)
    guards: list[tuple[str, tuple[Span, ...]]] = field(default_factory=list)


class _Listener(logging.Handler):
    """Records are logged while forward runs, so the current expression is on the stack."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Symbols()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if created := _CREATED.search(text):
            if size := _SIZE.match(created[3]):
                self.found.names[created[1]] = (size["input"], int(size["dim"]))
        elif replaced := _REPLACED.search(text):
            source = self.found.names.get(replaced[1])
            if source is not None:
                value = int(replaced[2]) if replaced[2].lstrip("-").isdigit() else self.found.names.get(replaced[2])
                self.found.pins.append(Pin(source, value if value is not None else replaced[2], _users_frames()))
        elif guard := _GUARD.search(text):
            self.found.guards.append((guard["expression"], _users_frames()))


def _users_frames() -> tuple[Span, ...]:
    found = []
    frame = sys._getframe(2)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            span = spans.resolve((frame.f_code, frame.f_lasti, None))
            if span is not None:
                found.append(iterated(span))
        elif frame.f_code is spans.BOUNDARY:
            break
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(reversed(found))


@contextmanager
def recorded() -> Iterator[Symbols]:
    """Record what happens to symbolic sizes while this is active; a call under `fxlib.ir.span.boundary` bounds the call
    paths."""
    logger = logging.getLogger(_LOGGER)
    listener = _Listener()
    level, propagate, handlers = logger.level, logger.propagate, logger.handlers[:]
    logger.handlers = [listener]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        with audible(logger):
            yield listener.found
    finally:
        logger.handlers = handlers
        logger.setLevel(level)
        logger.propagate = propagate
