"""Text edits and their application. Positions are those of spans: lines from 1, columns from 0 in UTF-8 bytes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Edit", "apply_edits", "mapped", "reported", "split_lines", "touched"]

# As the tokenizer splits: form feeds and the Unicode separators, where str.splitlines would split too, end no line.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True)
class Edit:
    """Replace a range of one file by a text; an empty range inserts. A file that is not there yet counts as empty."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def as_dict(self) -> dict:
        """Plain data, as in a record."""
        return asdict(self)

    @property
    def start(self) -> tuple[int, int]:
        return self.line, self.column

    @property
    def end(self) -> tuple[int, int]:
        return self.end_line, self.end_column


def split_lines(text: str) -> list[str]:
    """The lines of a Python source, their ends included, split where the tokenizer splits."""
    return _LINE.findall(text)


def offsets(lines: list[str]) -> list[int]:
    """Where each line starts, in UTF-8 bytes; one more entry for the end of the text."""
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line.encode())
    return [*starts, position]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits of one file, all of whose positions refer to the text before. Edits given twice count once.

    Raises:
        ValueError: two edits overlap, or a position is outside of the text.
    """
    raw = text.encode()
    lines = split_lines(text)
    starts = offsets(lines)

    def offset(line: int, column: int) -> int:
        if (line == len(starts) and column == 0) or (line == 1 and not lines):
            return len(raw)
        if not 1 <= line <= len(lines) or column > len(lines[line - 1].encode()):
            raise ValueError(f"position {line}:{column} is outside of the text of {len(lines)} lines")
        return starts[line - 1] + column

    unique = list(dict.fromkeys(edits))
    placed = sorted(((offset(*e.start), offset(*e.end), i, e.text) for i, e in enumerate(unique)), key=lambda p: p[:3])
    parts, position = [], 0
    for start, end, _, new in placed:
        if start < position:
            raise ValueError("two edits overlap; apply one and compute the other again")
        parts += [raw[position:start], new.encode()]
        position = end
    return b"".join([*parts, raw[position:]]).decode()


def mapped(edits: Iterable[Edit], place: Any) -> tuple[str, int]:
    """Where a span, or the start of an edit, is after the edits: its file and line."""
    shift = 0
    for edit in edits:
        if edit.file == place.file and edit.start <= (place.line, place.column):
            added = len(split_lines(edit.text + "|")) - 1
            inside = (place.line, place.column) < edit.end
            shift += edit.line - place.line if inside else added - (edit.end_line - edit.line)
    return place.file, place.line + shift


def reported(report: Any, finding: Any) -> bool:
    """Whether a report has a finding of the same code on the same line."""

    def mark(each: Any) -> tuple[Any, ...]:
        return each.code, each.span and (each.span.file, each.span.line)

    return mark(finding) in map(mark, report.findings)


def touched(edits: Collection[Edit], place: Any) -> bool:
    """Whether a span of the edited text lies in text written by an edit other than a whole-line insertion."""
    for edit in edits:
        if edit.file != place.file or (edit.column == 0 and edit.start == edit.end):
            continue
        line = mapped(edits, edit)[1]
        if line <= place.line <= line + edit.text.count("\n"):
            return True
    return False
