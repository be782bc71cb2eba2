"""The text behind running code: the syntax tree of a function, and the place in it for a traceback.

Only files of the workspace are read; for installed code only signatures are used.
"""

from __future__ import annotations

import ast
import importlib.util
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FunctionType, TracebackType
from typing import Any

_OURS = tuple(
    os.path.dirname(spec.origin) + os.sep
    for spec in map(importlib.util.find_spec, ("fxlens", "fxlib"))
    if spec is not None and spec.origin is not None
)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_INSTALLED = tuple(
    os.path.realpath(path) + os.sep for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib")
)


class Sources:
    """Syntax trees by file, parsed once."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, int, str], FunctionNode | None] = {}
        self._whole: dict[str, ast.Module | None] = {}
        self._own: dict[str, bool] = {}

    def is_own(self, file: str) -> bool:
        """Whether the file belongs to the workspace: it is neither installed nor part of Python."""
        known = self._own.get(file)
        if known is None:
            known = not (
                file.startswith(("<", *_OURS))
                or "site-packages" in file
                or "dist-packages" in file
                or os.path.realpath(file).startswith(_INSTALLED)
            )
            self._own[file] = known
        return known

    def tree(self, file: str) -> ast.Module | None:
        if file not in self._whole:
            lines = linecache.getlines(file) if self.is_own(file) else []
            try:
                self._whole[file] = ast.parse("".join(lines)) if lines else None
            except (SyntaxError, ValueError, RecursionError):
                self._whole[file] = None
        return self._whole[file]

    def lines(self, file: str) -> list[str]:
        return linecache.getlines(file) if self.is_own(file) else []

    def of_code(self, code: CodeType) -> FunctionNode | None:
        """The definition that this code was compiled from."""
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        if key not in self._functions:
            tree = self.tree(code.co_filename)
            self._functions[key] = _definition(tree, *key[1:]) if tree else None
        return self._functions[key]

    def of_function(self, function: Any) -> FunctionNode | None:
        function = plain(function)
        return self.of_code(function.__code__) if function is not None else None

    def at(self, code: CodeType, traceback: TracebackType) -> tuple[FunctionNode | None, ast.AST | None]:
        """The definition that ran, and the innermost node of it that raised: exact from Python 3.11 on, otherwise by
        line."""
        function = self.of_code(code)
        if function is None:
            return None, None
        span = position(code, traceback)
        best: ast.AST | None = None
        for node in _inside(function):
            start, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
            if start is None or end is None:
                continue
            if span is not None:
                if (start, node.col_offset) == span[:2] and (end, node.end_col_offset) == span[2:]:  # type: ignore[attr-defined]
                    return function, node
            elif isinstance(node, ast.stmt) and start <= traceback.tb_lineno <= end:
                best = node
        if best is None:
            line = traceback.tb_lineno
            for node in _inside(function):
                if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                    best = node
        return function, best


def plain(function: Any) -> FunctionType | None:
    """The Python function inside methods and decorators."""
    from fxlib.ir.objects import attribute, is_a

    for _ in range(5):
        if is_a(function, FunctionType):
            inner = attribute(function, "__wrapped__")
            if inner is None:
                return function
            function = inner
        else:
            function = attribute(function, "__func__", attribute(function, "__wrapped__"))
            if function is None:
                return None
    return function if is_a(function, FunctionType) else None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements in their order, those of inner functions and classes left out."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, name, []) or [])
        for handler in getattr(node, "handlers", []):
            yield from statements(handler.body)


def _definition(tree: ast.Module, line: int, name: str) -> FunctionNode | None:
    """The function of this name whose code starts on this line; the innermost and last of several."""
    found: FunctionNode | None = None
    level: list[ast.AST] = [tree]
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node) if _stands_on(child, line)]
        for node in level:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                own = "<lambda>" if isinstance(node, ast.Lambda) else node.name
                found = node if own == name and _first_line(node) == line else found
    return found


def _stands_on(node: ast.AST, line: int) -> bool:
    """Whether a node may have a part on this line; nodes without lines may."""
    return not hasattr(node, "lineno") or _first_line(node) <= line <= (getattr(node, "end_lineno", None) or line)


def _first_line(node: Any) -> int:
    return min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)


def _inside(function: FunctionNode) -> Iterator[ast.AST]:
    body = function.body if isinstance(function.body, list) else [function.body]
    for part in body:
        yield from ast.walk(part)


def position(code: CodeType, traceback: TracebackType) -> tuple[int, int, int, int] | None:
    """First line and column, last line and column of the expression that raised; None before Python 3.11."""
    if sys.version_info < (3, 11):
        return None
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index * 2 == traceback.tb_lasti:
            if None in (line, end_line, column, end_column):
                return None
            return line, column, end_line, end_column  # type: ignore[return-value]
    return None
