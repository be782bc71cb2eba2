"""Where the lines of a file are after an edit, and which of its functions have changed.

A file is seen as units: its functions, methods, the heads of its classes and its other statements, each with the
comments and blank lines above it. Comments and blank lines after the last one are a unit, too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fxlens.sources import positions

Unit = tuple[int, int, bool]
"""First and last line, and whether it is a function."""


@dataclass(frozen=True)
class Part:
    """A unit, the first line of its code (``begins``), its content (a statement, or the head of a class), the names of
    the classes around it, whether it is such a head, and by how many lines it has ``moved`` since it was parsed."""

    unit: Unit
    begins: int
    nodes: list[ast.AST]
    classes: tuple[str, ...] = ()
    is_head: bool = False
    moved: int = 0

    def inside(self) -> set[int]:
        """The lines that start within an expression."""
        return {line + self.moved for line in inside(*self.nodes)}


@dataclass
class Moves:
    """``lines`` are the lines of the new text by those of the old. ``changed`` are the changed functions, ``respaced``
    these and units with changed comments or blank lines, both by number."""

    lines: dict[int, int] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    respaced: set[int] = field(default_factory=set)

    def stretches(self) -> list[tuple[int, int, int]]:
        """The moved ``lines``: the first line of each range, its new position, and the number of lines."""
        found: list[tuple[int, int, int]] = []
        for old, new in sorted(self.lines.items()):
            first, to, count = found[-1] if found else (0, 0, 0)
            if (old, new) == (first + count, to + count) and found:
                found[-1] = (first, to, count + 1)
            elif old != new:
                found.append((old, new, 1))
        return found


def inside(*trees: ast.AST) -> set[int]:
    """The lines that start within an expression, where a blank line or a ``#`` may be part of a string."""
    found: set[int] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.expr) and (node.end_lineno or 0) > node.lineno:
            found.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    return found


def between(old: str, before: Sequence[Unit], within: Collection[int], new: str, after: Sequence[Part]) -> Moves | None:
    """The effect of an edit; None if more than functions has changed. ``before`` and ``within`` are the units of the
    old text and the lines `inside` of its expressions, ``after`` the parts of the new one."""
    if [unit[2] for unit in before] != [part.unit[2] for part in after]:
        return None
    olds, news = positions.lines_of(old), positions.lines_of(new)
    ends = before[-1][1] if before else 0, after[-1].unit[1] if after else 0
    rest = (ends[0] + 1, len(olds), False), Part((ends[1] + 1, len(news), False), 0, [])
    found = Moves()
    for number, (unit, part) in enumerate(zip([*before, rest[0]], [*after, rest[1]], strict=True)):
        now = part.unit
        rows, to, function = range(unit[0], unit[1] + 1), range(now[0], now[1] + 1), unit[2]
        if olds[unit[0] - 1 : unit[1]] == news[now[0] - 1 : now[1]]:
            found.lines.update(zip(rows, to, strict=True))
            continue
        one, other = _outline(olds, rows, within), _outline(news, to, part.inside())
        code, code_now = ([line for line in each if isinstance(each[line], str)] for each in (one, other))
        if [one[line] for line in code] == [other[line] for line in code_now]:
            alike = [*one.values()] == [*other.values()]
            found.lines.update(zip(*((rows, to) if alike else (code, code_now)), strict=True))
            if not alike or function:  # comments of a function may occur in a fix
                found.respaced.add(number)
                if not rows:  # the text ended with the unit before, and so what a fix writes at its end is there
                    found.respaced.add(number - 1)
        elif function:
            found.changed.add(number)
            found.respaced.add(number)
            found.lines.update(_of_changed(olds, rows, news, to))
        else:
            return None
    return found


def _outline(lines: Sequence[str], rows: range, within: Collection[int]) -> dict[int, str | int | None]:
    """For each line its code; for a plain comment its indentation, for a blank line None."""
    found: dict[int, str | int | None] = {}
    for number in rows:
        line = lines[number - 1]
        text = line.strip()
        if number in within or (text and (not text.startswith("#") or "fxlens" in text)):
            found[number] = line
        else:
            found[number] = len(line) - len(line.lstrip()) if text else None
    return found


def _of_changed(old: Sequence[str], rows: range, new: Sequence[str], to: range) -> dict[int, int]:
    """The mapping of lines in a changed function: those around the edit, and the edited ones if their number is
    unchanged."""
    if len(rows) == len(to):
        return dict(zip(rows, to, strict=True))
    moved = positions.moved_lines([old[line - 1] for line in rows], [new[line - 1] for line in to])
    return {rows[one - 1]: to[other - 1] for one, other in moved.items()}


def parts(tree: ast.Module) -> list[Part]:
    """The units with their content, without the trailing one."""
    found: list[Part] = []
    end = 0
    for node, classes in _statements(tree.body):
        inner: list[ast.AST] = [node]
        if isinstance(node, ast.ClassDef):  # its head; its body follows
            inner = [*node.decorator_list, *node.bases, *node.keywords]
            last = first_line(node.body[0]) - 1
        else:
            last = node.end_lineno or node.lineno
        if last > end:
            function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            head = isinstance(node, ast.ClassDef) and last >= node.lineno
            found.append(Part((end + 1, last, function), first_line(node), inner, classes, head))
            end = last
        elif found and not isinstance(node, ast.ClassDef):  # two on one line
            before = found[-1]
            found[-1] = replace(before, unit=(*before.unit[:2], False), nodes=[*before.nodes, *inner])
    return found


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, including decorators."""
    return min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)


def _statements(body: list[ast.stmt], classes: tuple[str, ...] = ()) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    for node in body:
        yield node, classes
        if isinstance(node, ast.ClassDef):
            yield from _statements(node.body, (*classes, node.name))
