"""Dynamo's messages about graph breaks, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fxlib.captures import torch_side
from fxlib.captures.places import Frame, frames_of, is_users, users_path
from fxlib.ir.span import Span

__all__ = ["Break", "break_of", "breaks_of_log", "described"]

_CODE = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_PLACE = re.compile(r"in user code at (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_SKIPPED = ("Skipping the function and falling back to eager", "Skipping the frame")
_SECOND = "While handling this graph break, another graph break occurred"


@dataclass(frozen=True)
class Break:
    """One graph break.

    ``code`` is Dynamo's (``"GB0170"``; empty where the message has none), ``title``, ``explanation``, ``hints`` and
    ``context`` its texts. ``path`` leads from forward to ``span``, the user's expression; ``inside`` is the frame in an
    installed package, in torch or in the standard library, if the break happened there. ``skipped``: Dynamo gave up the
    whole function, so that the rest of it was not analysed; ``second`` is the code of the reason why.
    """

    code: str
    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    path: tuple[Span, ...]
    inside: Frame | None = None
    skipped: bool = False
    second: str = ""

    @property
    def span(self) -> Span | None:
        return self.path[-1] if self.path else None


def described(message: str) -> dict[str, Any]:
    """Code, title, explanation, hints and context of a message of Dynamo's."""
    first, _, rest = message.partition(_SECOND)
    first = first.split("\nUser code traceback:")[0].split("\nfrom user code:")[0]
    code = _CODE.search(first)
    lines = first.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("  Explanation: ")), None)
    if start is None:
        known = [line.strip() for line in lines if line.strip()]
        return {"code": "", "title": known[0] if known else "", "explanation": "", "hints": (), "context": ""}
    title = next((line.strip() for line in reversed(lines[:start]) if line.strip()), "")
    title = title.removeprefix("Graph Break Reason: ")
    explanation: list[str] = []
    hints: list[str] = []
    context = ""
    into = explanation
    for line in lines[start:]:
        if line.startswith("  Explanation: "):
            explanation.append(line.removeprefix("  Explanation: "))
        elif line.startswith("  Hint: "):
            hints.append(line.removeprefix("  Hint: "))
            into = hints
        elif line.startswith("  Developer debug context:"):
            context = line.removeprefix("  Developer debug context:").strip()
            break
        elif line.strip() and into is explanation:
            explanation.append(line.strip())
    second = _CODE.search(rest)
    return {
        "code": f"GB{code[1]}" if code else "",
        "title": title,
        "explanation": " ".join(explanation),
        "hints": tuple(dict.fromkeys(hints)),
        "context": context,
        "second": f"GB{second[1]}" if second else "",
    }


def break_of(message: str, stack: Any, outer: Iterable[Frame] = (), skipped: bool = False) -> Break:
    """The break of an exception or of a log record: its message, the stack of Dynamo's frames, the frames around."""
    frames = [*outer, *frames_of(stack)]
    inside = frames[-1] if frames and not is_users(frames[-1].file) else None
    return Break(**described(message), path=users_path(frames), inside=inside, skipped=skipped)


def breaks_of_log(captured: torch_side.Captured, boundary: str) -> list[Break]:
    """The breaks that a run logged, in order and without duplicates.

    ``boundary`` is the file of the code that called the model: frames up to it are not user code.
    """
    found: dict[Any, Break] = {}
    ends = [frames_of(end) for end in captured.ends]
    known: dict[tuple[str, int], list[Frame]] = {}
    for record in captured.log:
        place = _PLACE.search(record.text) if record.artifact == "graph_breaks" else None
        if place is None:
            continue
        where = (place["file"], int(place["line"]))
        # Some breaks raise no exception; the graph that ended there has the columns.
        stack = frames_of(record.stack) or _taken(ends, where)
        around = _after(frames_of(record.text.partition("User code traceback:")[2]), boundary)
        if not around and where in known:
            # The second break of a line comes without its calls.
            around = known[where]
            stack = stack[-1:] or around[-1:]
        known.setdefault(where, around)
        # The log has the calls around the frame that Dynamo analysed, the exception the columns inside of it.
        outer = around[: len(around) - len(stack)] if stack else around
        one = break_of(record.text, None, [*outer, *stack], any(text in record.text for text in _SKIPPED))
        found.setdefault((one.span, one.code, one.inside), one)
    return list(found.values())


def _after(frames: list[Frame], boundary: str) -> list[Frame]:
    last = max((i for i, frame in enumerate(frames) if frame.file == boundary), default=-1)
    return frames[last + 1 :]


def _taken(ends: list[list[Frame]], where: tuple[str, int]) -> list[Frame]:
    """The stack of the first graph that ended at a line; it is removed from the list."""
    for index, frames in enumerate(ends):
        if frames and (frames[-1].file, frames[-1].line) == where:
            return ends.pop(index)
    return []
