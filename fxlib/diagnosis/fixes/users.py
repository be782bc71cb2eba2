"""Which models of a file use what an edit of it changes: found by name, without running anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from fxlib.diagnosis.fixes.edits import Edit

__all__ = ["uses"]

_WRAPPED = re.compile(r"""\bwrap\(["'](\w+)["']\)""")


def uses(construct: str, path: str, read: Callable[[str], str | None], edits: Iterable[Edit]) -> bool:
    """Whether the expression ``construct`` uses, directly or through other names of the file at ``path``, a class or
    function that one of the ``edits`` changes, or a name that it wraps. An edit of another file may concern every
    model."""
    edits = list(edits)
    if any(each.file != path for each in edits):
        return True
    try:
        definitions: dict[str, list[ast.stmt]] = {}
        for each in _defined(ast.parse(read(path) or "").body):
            definitions.setdefault(each.name, []).append(each)
    except (SyntaxError, ValueError):
        return False
    edited = {
        name
        for name, several in definitions.items()
        if any(each.lineno <= edit.line <= (each.end_lineno or 0) for each in several for edit in edits)
    }
    edited |= {name for edit in edits for name in _WRAPPED.findall(edit.text)}
    todo, seen = _names(ast.parse(construct)), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo |= {other for each in definitions.get(name, ()) for other in _names(each)}
    return bool(seen & edited)


def _defined(block: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The classes and functions of a module, those under `if` and `try` too."""
    for each in block:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield each
        elif isinstance(each, ast.If | ast.Try):
            handled = [part for handler in getattr(each, "handlers", ()) for part in handler.body]
            yield from _defined([*each.body, *handled, *each.orelse, *getattr(each, "finalbody", ())])


def _names(node: ast.AST) -> set[str]:
    """The names in it: identifiers, attributes, and strings that are identifiers."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
    return found
