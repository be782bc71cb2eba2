"""A client's edits of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .positions import UNIT_BYTES

Place = tuple[int, int]
"""A line and a character, from 0, in the client's encoding."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z|\Z")


def changed(text: str, changes: Iterable[tuple[Place, Place, str] | str], encoding: str) -> str:
    """The text after all changes in sequence: replaced ranges, or whole new texts.

    Each change touches only the lines around it, so thousands are fast, too."""
    lines = _lines(text)
    for change in changes:
        if isinstance(change, str):
            lines = _lines(change)
            continue
        (first, start), (last, end), new = change
        start = _index(lines, first, start, encoding)
        end = _index(lines, last, end, encoding)
        first, last = min(first, len(lines) - 1), min(last, len(lines) - 1)
        # Include the lines before and after, where a carriage return may meet a line feed.
        before, after = max(first - 1, 0), last + 2
        piece = [*lines[before:first], lines[first][:start], new, lines[last][end:], *lines[last + 1 : after]]
        made = _lines("".join(piece))
        lines[before:after] = made if after >= len(lines) else made[:-1]
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """With their ends; the last one is empty."""
    return _LINE.findall(text)


def _index(lines: list[str], line: int, character: int, encoding: str) -> int:
    """The index of a position in its line; clamped to the end of the line and of the text."""
    if line >= len(lines):
        return len(lines[-1])
    content = lines[line].rstrip("\r\n")
    if content.isascii():
        return min(character, len(content))
    for at, each in enumerate(content):
        if character <= 0:
            return at
        character -= _units(each, encoding)
    return len(content)


def _units(character: str, encoding: str) -> int:
    if encoding == "utf-8":
        return len(character.encode("utf-8", "surrogatepass"))
    return len(character.encode(f"{encoding}-le", "surrogatepass")) // UNIT_BYTES[encoding]
