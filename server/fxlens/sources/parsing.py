"""FX308: text that this Python cannot parse, as a finding."""

from __future__ import annotations

import ast
import re

from fxlens import record
from fxlens.record import Finding

from . import positions
from .files import ERRORS

_CELL = re.compile(r"^# ?%%", re.MULTILINE)
_MAGIC = re.compile(r"^[%!](?=\S)", re.MULTILINE)


def without_magics(text: str) -> str:
    """A file of cells (``# %%``) with IPython-only lines, such as ``%timeit f(x)`` and ``!ls``, as comments of the same
    length."""
    return _MAGIC.sub("#", text) if _CELL.search(text) else text


def syntax_problem(text: str, path: str) -> Finding | None:
    """The finding for a text that cannot be parsed."""
    try:
        ast.parse(text)
    except ERRORS as error:
        return syntax_finding(error, text, path)
    return None


def syntax_finding(error: BaseException, text: str, path: str) -> Finding:
    """The finding for a parse error; it marks the rest of the line from where Python stopped."""
    lines = positions.lines_of(text)
    line = min(_number(error, "lineno"), len(lines))
    content = lines[line - 1]
    start = _number(error, "offset") - 1
    first, last = positions.byte_length(content[:start]), positions.byte_length(content)
    if first >= last:
        first = len(content) - len(content.lstrip())
    message = f"Python cannot parse this: {getattr(error, 'msg', None) or error}"
    return record.finding("FX308", "error", message, record.span(path, line, first, line, last))


def _number(error: BaseException, name: str) -> int:
    """A line or column of an error, from 1: user code can raise one with any content."""
    value = getattr(error, name, None)
    return value if isinstance(value, int) and value > 0 else 1
