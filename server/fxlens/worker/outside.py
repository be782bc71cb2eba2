"""What code wants from outside of its process while it is looked at, and what it got in place of that."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

from . import placeholders


class Note(NamedTuple):
    """One thing that was not fetched or started, as a sentence; the line of the workspace that wanted it, and the
    class whose construction depends on what it got."""

    text: str
    file: str
    line: int
    target: str | None


notes: list[Note] = []
"""Those of this process, in their order."""
_constructed: str | None = None


@contextlib.contextmanager
def constructing(target: str) -> Iterator[None]:
    """This class is being constructed."""
    global _constructed
    before, _constructed = _constructed, target
    try:
        yield
    finally:
        _constructed = before


def note(text: str, file: str, line: int, matters: bool = True) -> None:
    """``matters``: what is constructed depends on it."""
    notes.append(Note(text, file, line, _constructed if matters else None))


def asking() -> tuple[str, int] | None:
    """The innermost line of the workspace that is running."""
    finder = placeholders.placeholder_finder()
    frame = sys._getframe(1)
    while finder is not None and frame is not None:
        if finder.is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None
