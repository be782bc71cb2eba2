"""Positions: spans count UTF-8 bytes from line 1, editors count UTF-16 units (or the negotiated encoding) from line
0."""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple, TypedDict

from fxlens import record
from fxlens.record import Edit, Span

from .targets import LINE_END, classes, without_comment

UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


class Position(TypedDict):
    """An LSP position: line and character from 0."""

    line: int
    character: int


class Range(TypedDict):
    """An LSP range."""

    start: Position
    end: Position


class LineEdit(NamedTuple):
    """Lines (from 0, ``end_line`` not included) and the text that replaces them."""

    line: int
    end_line: int
    text: str


def lines_of(text: str) -> list[str]:
    """Lines as counted by Python's parser and LSP; form feeds and the like do not end a line."""
    return LINE_END.split(text)


def line_end(text: str) -> str:
    """The line end of a text's first line, for new lines."""
    found = LINE_END.search(text)
    return found[0] if found else "\n"


def character(line: str, column: int, encoding: str = "utf-16") -> int:
    """The position in units of ``encoding`` of a UTF-8 column; one inside a character moves to its start."""
    prefix = line.encode("utf-8", "surrogatepass")[: max(column, 0)].decode("utf-8", "ignore")
    if encoding == "utf-8":
        return len(prefix.encode("utf-8", "surrogatepass"))
    return len(prefix.encode(f"{encoding}-le", "surrogatepass")) // UNIT_BYTES[encoding]


def column(line: str, position: int, encoding: str = "utf-16") -> int:
    """The UTF-8 column of a position in units of ``encoding``; past the end is the end."""
    if encoding == "utf-8":
        return min(position, len(line.encode("utf-8", "surrogatepass")))
    data = line.encode(f"{encoding}-le", "surrogatepass")[: max(position, 0) * UNIT_BYTES[encoding]]
    return len(data.decode(f"{encoding}-le", "ignore").encode("utf-8", "surrogatepass"))


def lsp_range(span: Span | None, lines: list[str], encoding: str = "utf-16") -> Range:
    """A span as an LSP range.  No span is the file's first line; lines beyond the text are its last."""
    if span is None:
        first = lines[0] if lines else ""
        return {
            "start": {"line": 0, "character": 0},
            "end": {"line": 0, "character": character(first, 1 << 30, encoding)},
        }
    start = _position(span["line"], span["column"], lines, encoding)
    end = _position(span["end_line"], span["end_column"], lines, encoding)
    return {"start": start, "end": end}


def _position(line: int, at: int, lines: list[str], encoding: str) -> Position:
    number = min(max(line - 1, 0), max(len(lines) - 1, 0))
    return {"line": number, "character": character(lines[number] if lines else "", at, encoding)}


def class_end(text: str, name: str) -> int | None:
    """The line (from 0) after the statement at module level that is or holds the class of this name; None if there is
    no such class."""
    tree = ast.parse(text)
    at = next((statement.lineno for found, statement in classes(tree) if found == name), None)
    ends = (each.end_lineno for each in tree.body if at is not None and each.end_lineno and each.end_lineno >= at)
    return next(ends, None)


def line_edits(old: str, new: str) -> list[LineEdit]:
    """The edits that turn the old text into the new one."""
    before, after = _with_ends(old), _with_ends(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        LineEdit(first, last, "".join(after[start:end]))
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after these edits."""
    lines = [line.encode("utf-8", "surrogatepass") for line in _with_ends(text)]
    starts = [0, *itertools.accumulate(map(len, lines))]
    whole = b"".join(lines)

    def offset(line: int, column: int) -> int:
        return min(starts[min(max(line - 1, 0), len(lines))] + column, len(whole))

    for edit in sorted(edits, key=lambda each: (each["line"], each["column"]), reverse=True):
        start, end = offset(edit["line"], edit["column"]), offset(edit["end_line"], edit["end_column"])
        whole = whole[:start] + edit["text"].encode("utf-8", "surrogatepass") + whole[end:]
    return whole.decode("utf-8", "surrogatepass")


def _with_ends(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if line]


def first_difference(old: str, new: str) -> int | None:
    """The first line (from 0) in which two texts differ; None if they are equal."""
    if old == new:
        return None
    one, other = lines_of(old), lines_of(new)
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


def moved_lines(old: list[str], new: list[str]) -> dict[int, int]:
    """Maps lines (from 1) of the old text to the new one: those before the first and after the last difference."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    moved = {number: number for number in range(1, head + 1)}
    moved.update({len(old) - back: len(new) - back for back in range(tail)})
    return moved


def moved_span(span: Span, moved: dict[int, int]) -> Span | None:
    """The span in the new text; None if one of its lines was edited."""
    lines = [moved[number] for number in range(span["line"], span["end_line"] + 1) if number in moved]
    if not lines or len(lines) <= span["end_line"] - span["line"]:
        return None
    return {**span, "line": lines[0], "end_line": lines[-1]}


def span_of_line(text: str, path: str, line: int) -> Span:
    """The span of a line without indentation, comment and trailing blanks."""
    lines = lines_of(text)
    content = lines[line - 1] if 0 < line <= len(lines) else ""
    start = len(content) - len(content.lstrip())
    end = len(without_comment(content))
    return record.span(path, line, byte_length(content[:start]), line, byte_length(content[: max(end, start)]))


def byte_length(text: str) -> int:
    """The number of UTF-8 bytes, as columns are counted."""
    return len(text.encode("utf-8", "surrogatepass"))
