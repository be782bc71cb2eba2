"""Imports that the fixes of a file have left without a use."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterator

from fxlib.diagnosis.fixes.edits import Edit, apply_edits
from fxlib.diagnosis.fixes.source import Source

__all__ = ["without_unused_imports"]

_MOST_FILES, _MOST_BYTES = 3000, 1 << 20


def without_unused_imports(file: str, before: str, after: str, folder: str | None = None) -> str:
    """``after`` without the imports whose names ``before`` used and ``after`` does not.

    What was unused already stays: others may import it from there, as they do from an ``__init__``. So does what a file
    below ``folder`` (that of the file, where left out) imports from there.
    """
    if os.path.basename(file) == "__init__.py":
        return after
    source = Source(file, after)
    unused = _used(Source(file, before)) - _used(source)
    if unused & {_name(alias) for alias in _imports(source)}:
        unused -= _taken_by_others(file, folder or os.path.dirname(os.path.abspath(file)), unused)
    edits = [
        edit
        for statement in source.tree.body
        if isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__"
        for edit in _without(source, statement, unused)
    ]
    return apply_edits(after, edits)


def _imports(source: Source) -> Iterator[ast.alias]:
    for statement in source.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from statement.names


def _name(alias: ast.alias) -> str:
    """What an import binds."""
    return alias.asname or alias.name.split(".")[0]


def _taken_by_others(file: str, folder: str, names: set[str]) -> set[str]:
    """Which of the names other files import from this one, or name; all of them if one imports ``*`` or names this
    file, as those do that execute it, or if there are too many files to read."""
    stem = os.path.basename(file).removesuffix(".py")
    pattern = re.compile(rf"from\s+[\w.]*\b{re.escape(stem)}\s+import\s*(\([^)]*\)|(?:\\\n|[^\n])*)")
    taken: set[str] = set()
    count = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in ("node_modules", "venv")]
        for each in files:
            path = os.path.join(at, each)
            if not (each.endswith((".py", ".ipynb", ".sh")) or "." not in each) or os.path.realpath(
                path
            ) == os.path.realpath(file):
                continue
            count += 1
            if count > _MOST_FILES:
                return names
            if not os.path.isfile(path):
                continue
            try:
                with open(path, encoding="utf-8", errors="replace") as other:
                    text = other.read(_MOST_BYTES)
            except OSError:
                continue
            if stem not in text:
                continue
            if f"{stem}.py" in text:
                return names
            taken |= names & set(re.findall(r"[.'\"](\w+)", text))  # such as `nets.np` and `getattr(nets, "np")`
            for found in pattern.findall(text):
                taken |= names if "*" in found else names & set(re.findall(r"\w+", found))
    return taken


def _used(source: Source) -> set[str]:
    """The names that a file reads, including those in strings and comments: an annotation, `__all__` or a comment with
    the construction of a model may use them."""
    used: set[str] = set()
    lines = io.StringIO("".join(source.lines)).readline
    for token in tokenize.generate_tokens(lines):
        if token.type == tokenize.COMMENT:
            used.update(re.findall(r"\w+", token.string))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.update(re.findall(r"\w+", node.value))
    return used


def _without(source: Source, statement: ast.Import | ast.ImportFrom, unused: set[str]) -> list[Edit]:
    kept = [alias for alias in statement.names if _name(alias) not in unused]
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
