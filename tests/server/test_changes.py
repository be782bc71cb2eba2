"""A client's edits of a text, against a slow and simple implementation."""

from __future__ import annotations

import random
import re

from fxlens.sources.changes import changed

PIECES = ["a", "b", "\n", "\r", "\r\n", "é", "𝄞", "\x0c", "\u2028", " "]


def slowly(text: str, start: tuple[int, int], end: tuple[int, int], new: str) -> str:
    return text[: offset(text, *start)] + new + text[offset(text, *end) :]


def offset(text: str, line: int, character: int) -> int:
    ends = list(re.finditer("\r\n|\r|\n", text))
    if line > len(ends):
        return len(text)
    at = ends[line - 1].end() if line else 0
    stop = ends[line].start() if line < len(ends) else len(text)
    while at < stop and character > 0:
        character -= 2 if ord(text[at]) > 0xFFFF else 1
        at += 1
    return at


def test_random_changes():
    choose = random.Random(1)
    for _ in range(3000):
        text = want = "".join(choose.choice(PIECES) for _ in range(choose.randrange(14)))
        changes = []
        for _ in range(choose.randrange(1, 5)):
            start, end = sorted((choose.randrange(6), choose.randrange(6)) for _ in range(2))
            new = "".join(choose.choice(PIECES) for _ in range(choose.randrange(3)))
            changes.append((start, end, new))
            want = slowly(want, start, end, new)
        assert changed(text, changes, "utf-16") == want, (text, changes)
    assert changed("a", ["b\n", ((1, 0), (1, 0), "c")], "utf-16") == "b\nc"


def test_units_of_the_client():
    for encoding, at in (("utf-8", 4), ("utf-16", 2), ("utf-32", 1)):
        assert changed("𝄞x", [((0, at), (0, at + 1), "y")], encoding) == "𝄞y"
