"""Where in the user's file something happened: the span of the innermost expression of that file in a traceback.

Standard library only; the worker uses it for exceptions, the server for the stacks that a killed process leaves.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
from types import TracebackType
from typing import Any

from fxlens import text as positions

from .loading import key

_FRAME = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+)(?: in (?P<name>.*))?$', re.MULTILINE)
_MACHINERY = (os.path.dirname(importlib.__file__), os.path.dirname(__file__))
_SLOW = "Timeout ("  # how faulthandler begins the stack of a process that takes long


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


def of_dump(dump: str, path: str, stopped: bool = True) -> int | None:
    """The innermost line of ``path`` in the last stack that faulthandler wrote into ``dump``.

    A process that was not ``stopped`` for taking too much ended elsewhere than where it was slow on the way."""
    stack = last_stack(dump)
    if not stopped and stack.startswith(_SLOW):
        return None
    wanted = key(path)
    for match in _FRAME.finditer(stack):
        if key(match["file"]) == wanted:
            return int(match["line"])
    return None


def last_stack(dump: str) -> str:
    """The part of the output from the last message of faulthandler, or of our ``os._exit``, on."""
    starts = [dump.rfind(mark) for mark in ("\nFatal Python error:", _SLOW, "\nfxlens: os._exit(")]
    start = max(starts)
    return dump[start:] if start >= 0 else ("" if not dump.startswith("Fatal Python error:") else dump)


def last_output(dump: str, lines: int = 3) -> str:
    """The last lines that the process printed before the stack in ``dump``."""
    stack = last_stack(dump)
    printed = dump[: len(dump) - len(stack)] if stack else dump
    kept = [line.rstrip() for line in printed.splitlines() if line.strip()][-lines:]
    return "\n".join(line if len(line) <= 300 else line[:300] + "…" for line in kept)


def of_line(text: str, path: str, line: int) -> dict[str, Any]:
    """The span of what is written on a line: without its indentation, its comment and the blanks after it."""
    lines = positions.lines_of(text)
    content = lines[line - 1] if 0 < line <= len(lines) else ""
    start = len(content) - len(content.lstrip())
    end = len(_without_comment(content).rstrip())
    return {
        "file": path,
        "line": line,
        "column": len(content[:start].encode("utf-8", "surrogatepass")),
        "end_line": line,
        "end_column": len(content[: max(end, start)].encode("utf-8", "surrogatepass")),
    }


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


def _without_comment(line: str) -> str:
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote and line[at - 1] != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            return line[:at]
    return line
