"""The place in the user's file where an exception was raised: the span of an expression of it in a traceback."""

from __future__ import annotations

import ast
import dis
import importlib
import os
import sysconfig
from types import CodeType, TracebackType

from fxlens import record
from fxlens.record import Span
from fxlens.sources.paths import key

_STDLIB = tuple(os.path.join(sysconfig.get_path(key), "") for key in ("stdlib", "platstdlib"))
_MACHINERY = (os.path.dirname(importlib.__file__), os.path.dirname(os.path.dirname(__file__)))


def of_error(error: BaseException, path: str, *, outermost: bool = False) -> Span | None:
    """The innermost expression of ``path`` in the traceback, or the call that begins the second round of an endless
    recursion; None if it is not in it. The ``outermost`` one is part of the statement that was being executed."""
    from fxlib.diagnosis.engine.raised import way_of

    wanted = key(path)
    way = way_of(error, lambda file: key(file) != wanted)
    if not way:
        return None
    at = way[0 if outermost else -1]
    code, lasti, line = at.tb_frame.f_code, at.tb_lasti, at.tb_lineno
    if hasattr(code, "co_positions"):
        for number, position in enumerate(code.co_positions()):
            first, last, column, end = position
            if number == lasti // 2 and first and last and column is not None and end is not None:
                return record.span(path, first, column, last, end)
    return record.span(path, line)


def files(traceback: TracebackType | None) -> set[str]:
    """The files of all code in the traceback."""
    found = set()
    while traceback is not None:
        found.add(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return found


def elsewhere(traceback: TracebackType | None, path: str) -> tuple[str, int] | None:
    """If an import of ``path`` failed, the innermost line of a file that is neither ``path`` nor part of Python; None
    if ``path`` itself failed."""
    found: tuple[str, int] | None = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if key(file) == key(path):
            found = None
        elif not file.startswith(("<", *_MACHINERY)) and not _is_pythons(file):
            found = (file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _is_pythons(file: str) -> bool:
    """Whether the file is of the standard library, as `dataclasses.py` is."""
    return file.startswith(_STDLIB) and not {"site-packages", "dist-packages"} & set(file.split(os.sep))


def of_import(tree: ast.Module, path: str, line: int) -> Span | None:
    """The import statement on this line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return record.span(path, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset or 0)
    return None


def instruction_after(code: CodeType, offset: int) -> str:
    """The name of the instruction after the one at ``offset``: ``POP_TOP`` if the result of a call is unused."""
    after = (each.opname for each in dis.get_instructions(code) if each.offset > offset)
    return next((name for name in after if name != "CACHE"), "")
