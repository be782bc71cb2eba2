"""Where in the user's file an exception was raised: the span of its innermost expression in a traceback."""

from __future__ import annotations

import ast
import importlib
import os
from types import TracebackType
from typing import Any

from fxlens.sources.paths import key

_MACHINERY = (os.path.dirname(importlib.__file__), os.path.dirname(os.path.dirname(__file__)))


def of_traceback(traceback: TracebackType | None, path: str) -> dict[str, Any] | None:
    """The innermost expression of ``path`` in the traceback; None where it has no part in it."""
    wanted, found = key(path), None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if key(code.co_filename) == wanted:
            found = (code, traceback.tb_lasti, traceback.tb_lineno)
        traceback = traceback.tb_next
    if found is None:
        return None
    code, lasti, line = found
    if hasattr(code, "co_positions"):
        for number, position in enumerate(code.co_positions()):
            if number == lasti // 2 and None not in position:
                first, last, column, end = position
                return {"file": path, "line": first, "column": column, "end_line": last, "end_column": end}
    return {"file": path, "line": line, "column": 0, "end_line": line, "end_column": 0}


def elsewhere(traceback: TracebackType | None, path: str) -> tuple[str, int] | None:
    """The innermost line of a file that is neither ``path`` nor Python's own machinery, where an import of ``path``
    failed; None where ``path`` itself failed."""
    found: tuple[str, int] | None = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if key(file) == key(path):
            found = None
        elif not file.startswith("<") and not file.startswith(_MACHINERY):
            found = (file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def of_import(tree: ast.Module, path: str, line: int) -> dict[str, Any] | None:
    """The import statement on this line."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return {
                "file": path,
                "line": node.lineno,
                "column": node.col_offset,
                "end_line": node.end_lineno or node.lineno,
                "end_column": node.end_col_offset or node.col_offset,
            }
    return None
