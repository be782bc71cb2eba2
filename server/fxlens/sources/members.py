"""The places where a class creates its submodules: the assignments to ``self`` in its methods, and the layers within
them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from fxlens.record import Span, span

from .files import ERRORS

_MOST = 400_000  # characters of a text that is parsed for one hover
_LISTS = ("Sequential", "ModuleList")


@dataclass(frozen=True)
class Member:
    """``path`` is the submodule's path in the class ``owner``, whose text is from line ``first`` to ``last``."""

    owner: str
    path: str
    span: Span
    first: int
    last: int


def member_at(text: str, path: str, line: int, column: int) -> Member | None:
    """The submodule whose creation is at a position: ``self.up1`` or ``Up`` in ``self.up1 = Up(64, 32)``; for one
    inside a Sequential, at its class."""
    if len(text) > _MOST:
        return None
    try:
        tree = ast.parse(text)
    except ERRORS:
        return None
    kind = next((each for each in tree.body if isinstance(each, ast.ClassDef) and _around(each, line)), None)
    if kind is None:
        return None
    for statement in ast.walk(kind):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _around(statement, line):
            for name, part in _parts(statement):
                if (part.lineno, part.col_offset) <= (line, column) <= (part.end_lineno, part.end_col_offset):
                    place = span(path, part.lineno, part.col_offset, part.end_lineno, part.end_col_offset or 0)
                    return Member(kind.name, name, place, kind.lineno, kind.end_lineno or kind.lineno)
    return None


def _around(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _parts(statement: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr]]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            yield target.attr, target
            yield from _created(target.attr, statement.value)


def _created(path: str, value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    """The class that is called, and those in lists of modules passed to it."""
    if not isinstance(value, ast.Call):
        return
    yield path, value.func
    name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    items = value.args if name in _LISTS else []
    if len(items) == 1 and isinstance(items[0], (ast.List, ast.Tuple)):
        items = items[0].elts
    # After a star the index of an item is unknown.
    for number, item in enumerate(items):
        if isinstance(item, ast.Starred):
            return
        yield from _created(f"{path}.{number}", item)
