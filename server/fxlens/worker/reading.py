"""What a job reads from its text before running it; after an edit within one function, or of comments and blank lines,
only that function is read again.

The rest of the text is unaffected, since the edited lines start and end at statement boundaries and were and are one
statement. If more is needed, the whole text is read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fxlens.sources import parsing, positions, targets
from fxlens.sources.files import state_of
from fxlens.sources.notebook import is_notebook

from . import candidates, codes, construct, moves
from .candidates import Candidates

if TYPE_CHECKING:
    from .job import Job

_WORD = re.compile(r"[^\W\d]\w*")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Reading:
    """The reading of one text; ``found`` excludes the server's knowledge."""

    def __init__(self, text: str, path: str, tree: ast.Module | None, found: Candidates) -> None:
        self.text, self.path, self.found = text, path, found
        if tree is not None:
            self.tree = tree

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return positions.lines_of(self.text)

    @cached_property
    def parts(self) -> list[moves.Part]:
        return moves.parts(self.tree)

    @cached_property
    def imports(self) -> list[str]:
        """The names that it imports."""
        return codes.imported(self.tree)

    @cached_property
    def calls(self) -> re.Pattern[str]:
        """A pattern for lines that may call one of its classes, as examples of constructions."""
        return targets.calls_of(target.name for target in self.found.targets)

    @cached_property
    def own_device(self) -> bool:
        """Whether its code reads the device of a module's own tensors."""
        return construct.reads_own_device(self.tree, self.text)

    @cached_property
    def defines_models(self) -> bool:
        """Whether a class that is not within a function may be a model."""
        return any(targets.may_be_model(node) for _, node in targets.classes(self.tree))


@dataclass(frozen=True)
class Grafted:
    """A reading derived from an earlier one: lines from ``begins`` on have moved by ``moved``. ``function`` is the new
    content of its part."""

    reading: Reading
    begins: int
    moved: int
    number: int = 0
    function: Function | None = None


def whole(job: Job, tree: ast.Module) -> Reading:
    """Read all of a job's text."""
    return Reading(job.text, job.path, tree, candidates.read(job, tree))


def prepared(reading: Reading) -> bool:
    """Prepares incremental reading after an edit; returns whether it is possible."""
    if is_notebook(reading.path) or not reading.defines_models or not reading.parts:
        return False
    for name in ("lines", "imports", "calls", "own_device"):
        getattr(reading, name)
    return True


def grafted(before: Reading, job: Job, missing: frozenset[str]) -> Grafted | None:
    """The reading of a job's text; None if the whole text must be read. ``missing`` are the names of the main block
    that the module lacks."""
    if any(state_of(path) != state for path, state in before.found.looked_at.items()):
        return None
    lines = positions.lines_of(job.text)
    place = _place(before, lines)
    if place is None or "\0" in job.text:
        return None
    number, rows, by = place
    now = Reading(job.text, job.path, None, before.found)
    now.lines, now.imports, now.own_device = lines, before.imports, before.own_device
    if number == len(before.parts):  # only the part after the last statement
        now.parts = before.parts
        return Grafted(now, len(before.lines) + 1, 0)
    part = before.parts[number]
    first, last, is_function = part.unit
    old = before.lines[first - 1 : last]
    code = old[part.begins - first :]
    if not code or _matter([*old, *rows]):
        return None
    head = _head(part, old)
    if head and rows[: len(head)] == head and _are_blank(rows[len(head) :]):
        own = replace(part, unit=(first, last + by, False))
        now.parts = [*before.parts[:number], own, *_moved(before.parts[number + 1 :], by, last + by + 1)]
        now.found = _on_lines(before.found, lambda line: line + by if line > last else line)
        return Grafted(now, last + 1, by)
    if rows[-len(code) :] == code and _are_blank(rows[: -len(code)]):
        now.parts = [*before.parts[:number], *_moved(before.parts[number:], by, first)]
        now.found = _on_lines(before.found, lambda line: line + by if line >= part.begins else line)
        return Grafted(now, part.begins, by)
    if not is_function or any(map(before.calls.search, [*code, *rows])):
        return None
    if not missing.isdisjoint(_WORD.findall("\n".join(rows))):
        return None
    function = _function(rows, first, part, code)
    if function is None or function.end_lineno is None:
        return None
    if before.own_device:
        if construct.names_devices("\n".join(code)):
            return None  # it may have been the only one
    elif construct.names_devices("\n".join(rows)):
        now.own_device = construct.reads_own_device(ast.Module([function], []), job.text)
    ends, begins = function.end_lineno, moves.first_line(function)
    own = moves.Part((first, ends, True), begins, [function], part.classes)
    now.parts = [*before.parts[:number], own, *_moved(before.parts[number + 1 :], by, ends + 1)]
    now.found = _on_lines(before.found, lambda line: ends if line == last else line + by if line > last else line)
    return Grafted(now, last + 1, by, number, function)


def _place(before: Reading, lines: list[str]) -> tuple[int, list[str], int] | None:
    """The number of the edited part, its current lines (perhaps with some of the next part), and the number of added
    lines. None if several parts were edited."""
    old, parts = before.lines, before.parts
    count, end, new_end = len(parts), parts[-1].unit[1], len(lines)
    while new_end and _are_blank(lines[new_end - 1 : new_end]):
        new_end -= 1
    by = new_end - end
    if lines[new_end:] != old[end:] and _matter([*old[end:], *lines[new_end:]]):
        return None
    number = 0
    while number < count and lines[_rows(parts[number])] == old[_rows(parts[number])]:
        number += 1
    if number == count and by <= 0:
        return count, [], 0
    begin, last = parts[number - 1].unit[1] if number else 0, count
    while last > number:
        rows = _rows(parts[last - 1])
        if rows.start + by < begin or lines[rows.start + by : rows.stop + by] != old[rows]:
            break
        last -= 1
    if last == number and by > 0:  # between two parts
        of_next = number < count and _are_blank(lines[begin : begin + by])
        number -= number > 0 and (not of_next or parts[number - 1].is_head)
    elif last != number + 1:
        return None
    first, final, _ = parts[number].unit
    return number, lines[first - 1 : final + by], by


def _head(part: moves.Part, lines: list[str]) -> list[str]:
    """The lines of a class's head without trailing comments and blank lines; none for other parts."""
    if not part.is_head:
        return []
    count, inside = len(lines), part.inside()
    while part.unit[0] + count - 1 not in inside and _are_blank(lines[count - 1 : count]):
        count -= 1
    return lines[:count]


def _rows(part: moves.Part) -> slice:
    return slice(part.unit[0] - 1, part.unit[1])


def _are_blank(lines: Sequence[str]) -> bool:
    """Whether there are only comments and blank lines."""
    return all(not (text := line.strip(" \t\f")) or text.startswith("#") for line in lines)


def _matter(lines: Sequence[str]) -> bool:
    """Whether they may contain comments of ours, or text that does not parse."""
    text = "\n".join(lines)
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return "fxlens" in text


def _start(row: str) -> tuple[str, bool]:
    """The indentation of a line, and whether a function may start there."""
    text = row.lstrip(" \t\f")
    return row[: len(row) - len(text)], text.startswith(("@", "def", "async"))


def _function(rows: Sequence[str], first: int, part: moves.Part, code: Sequence[str]) -> Function | None:
    """The edited version of the function with this ``code``, from the part's first line; None if its definition-time
    expressions have changed, or the lines contain more."""
    blank = next((number for number, row in enumerate(rows) if not _are_blank([row])), len(rows))
    source = rows[blank:]
    if not source or source[-1].endswith("\\") or _start(source[0]) != _start(code[0]):
        return None
    line, indented = first + blank, source[0][:1] in (" ", "\t", "\f")
    head = "\n" * (line - 2) + "class _:\n" if indented and line > 1 else "\n" * (line - 1)
    try:
        body: list[Any] = ast.parse("".join([head, *(f"{row}\n" for row in source)])).body
    except parsing.ERRORS:
        return None
    found = body[0].body if indented and len(body) == 1 else body
    before = part.nodes[0]
    if len(found) != 1 or type(found[0]) is not type(before) or _defined(found[0]) != _defined(before):
        return None
    return found[0]  # type: ignore[return-value]


def _defined(function: Any) -> tuple[Any, ...]:
    """The expressions that are evaluated when a function is defined."""
    parts = (function.args, *function.decorator_list, *([function.returns] if function.returns else []))
    return function.name, len(function.decorator_list), *map(ast.dump, parts)


def _moved(parts: Sequence[moves.Part], by: int, first: int) -> Iterator[moves.Part]:
    """The parts moved down by these lines; the ``first`` line of the first one may differ."""
    for part in parts:
        last = part.unit[1] + by
        unit = (first, last, part.unit[2])
        yield replace(part, unit=unit, begins=part.begins + by, moved=part.moved + by)
        first = last + 1


def _on_lines(found: Candidates, line: Callable[[int], int]) -> Candidates:
    def placed(sources: list[targets.Source]) -> list[targets.Source]:
        return [
            each if each.file is not None or each.line is None else replace(each, line=line(each.line))
            for each in sources
        ]

    moved = [
        replace(
            each, line=line(each.line), end_line=line(each.end_line), first_line=line(each.first_line),
            last_line=line(each.last_line), construct=placed(each.construct), inputs=placed(each.inputs),
            partial=placed(each.partial),
        )
        for each in found.targets
    ]  # fmt: skip
    return replace(found, targets=moved)
