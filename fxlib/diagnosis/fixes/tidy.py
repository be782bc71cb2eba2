"""Imports that the fixes of a file have left without a use."""

from __future__ import annotations

import ast
import os
import re

from fxlib.diagnosis.fixes.edits import Edit, apply_edits
from fxlib.diagnosis.fixes.source import Source

__all__ = ["without_unused_imports"]


def without_unused_imports(file: str, before: str, after: str) -> str:
    """``after`` without the imports whose names ``before`` used and ``after`` does not.

    What was unused already stays: others may import it from there, as they do from an ``__init__``.
    """
    if os.path.basename(file) == "__init__.py":
        return after
    source = Source(file, after)
    unused = _used(Source(file, before)) - _used(source)
    edits = [
        edit
        for statement in source.tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__"
        for edit in _without(source, statement, unused)
    ]
    return apply_edits(after, edits)


def _used(source: Source) -> set[str]:
    """The names that a file reads, those in its texts included: an annotation or `__all__` may hold them."""
    used: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            used.update(re.findall(r"\w+", node.value))
    return used


def _without(source: Source, statement: ast.Import | ast.ImportFrom, unused: set[str]) -> list[Edit]:
    kept = [alias for alias in statement.names if (alias.asname or alias.name.split(".")[0]) not in unused]
    if len(kept) == len(statement.names) or not (source.starts_line(statement) and source.ends_line(statement)):
        return []
    first, last = (statement.lineno, 0), (source.line_below(statement), 0)
    if not kept:
        return [source.replace_range(first, last, "")]
    if statement.lineno != statement.end_lineno:
        return [_line_of(source, alias) for alias in statement.names if alias not in kept and _has_line(source, alias)]
    start = source.range_of(statement.names[0])[0]
    names = ", ".join(source.segment(alias) for alias in kept)
    return [source.replace_range(start, source.range_of(statement.names[-1])[1], names)]


def _has_line(source: Source, alias: ast.alias) -> bool:
    """Whether a name of an import over several lines stands on a line of its own."""
    return source.lines[alias.lineno - 1].partition("#")[0].strip().rstrip(",") == source.segment(alias)


def _line_of(source: Source, alias: ast.alias) -> Edit:
    return source.replace_range((alias.lineno, 0), (alias.lineno + 1, 0), "")
