"""Where in the user's source a node came from.

The tracer keeps a *site* per node: ``None`` or a linked tuple ``(code, lasti, parent)``: a code object, the offset of
the current instruction, and the site of its caller, up to the frame of the traced root. Sites are cheap (a tuple) and
hold no frame, so no local variable is kept alive. They are resolved to a `Span` only on demand.

Frames of torch, of this package and of the standard library never appear in a site.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from fxlib.ir import span_by_line as _span_by_line

__all__ = [
    "Site", "Span", "boundary", "call_path", "current_site", "is_hidden", "parameter_site", "resolve", "return_site",
    "source_text",
]  # fmt: skip

Site = tuple[CodeType, int, "Site | None"]


class Span(NamedTuple):
    """A range of source text: lines from 1, columns from 0 in UTF-8 bytes, as in `ast`; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def place(self) -> str:
        """The start in the form that editors and terminals link: ``file:line:column``, columns from 1."""
        return f"{self.file}:{self.line}:{self.column + 1}"


def _folder(path: str) -> str:
    return os.path.join(path, "")


_OWN: tuple[str, ...] = (
    _folder(os.path.dirname(os.path.abspath(torch.__file__))),
    _folder(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
)
_STDLIB = tuple({_folder(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib")})
_hidden: dict[str, bool] = {}


def is_hidden(filename: str) -> bool:
    """Whether this file belongs to torch, fxlib or the standard library, so that no span may point there."""
    known = _hidden.get(filename)
    if known is None:
        known = filename.startswith(_OWN) or filename.startswith("<frozen ")
        if not known and filename.startswith(_STDLIB):
            known = not any(part in ("site-packages", "dist-packages") for part in filename.split(os.sep))
        if len(_hidden) > 4096:
            _hidden.clear()
        _hidden[filename] = known
    return known


def hide(folder: str) -> None:
    """Exclude a folder from spans: its code belongs to the program that runs fxlib."""
    global _OWN
    _OWN = (*_OWN, _folder(os.path.abspath(folder)))
    _hidden.clear()


def boundary(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``fn``. Its frame on the stack marks where a trace, or a traced module, begins: sites stop there."""
    return fn(*args, **kwargs)


BOUNDARY = boundary.__code__


# In place of an instruction's offset: the k-th parameter (-1 - k), or the value returned.
RETURN = -1_000_000


def parameter_site(code: CodeType, index: int) -> Site:
    """The site of a parameter of ``code`` where it is declared."""
    return (code, -1 - index, None)


def return_site(code: CodeType) -> Site:
    """The site of the return statement of ``code``, where it has exactly one."""
    return (code, RETURN, None)


def current_site(
    frame: FrameType | None = None, base: Site | None = None, skip: frozenset[int] = frozenset()
) -> Site | None:
    """The site of ``frame`` (default: the caller), ``base`` being the site outside the nearest `boundary`.

    ``skip`` holds ids of further code objects to leave out, such as the methods of a Tracer subclass. Outside a trace
    only the user's innermost frame is kept.
    """
    if frame is None:
        frame = sys._getframe(1)
    found: list[tuple[CodeType, int]] = []
    while frame is not None:
        code = frame.f_code
        if is_hidden(code.co_filename):
            if code is BOUNDARY:
                break
        elif not skip or id(code) not in skip:
            found.append((code, frame.f_lasti))
        frame = frame.f_back
    else:
        return (*found[0], None) if found else None
    site = base
    for code, lasti in reversed(found):
        site = (code, lasti, site)
    return site


# First line, last line, first column, column after the last.
_Position = tuple[int | None, int | None, int | None, int | None]
_TESTS = frozenset(
    number
    for name, number in dis.opmap.items()
    if name == "TO_BOOL" or (name.startswith(("POP_JUMP_", "JUMP_IF_")) and "NONE" not in name)
)
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_positions: dict[int, tuple[CodeType, tuple[_Position, ...], bytes]] = {}
_definitions: dict[tuple[int, int], tuple[CodeType, Span | None]] = {}


def _position_of(code: CodeType, lasti: int) -> _Position:
    known = _positions.get(id(code))
    if known is None:
        if len(_positions) > 256:
            _positions.clear()
        # The code object is kept beside its positions so that its id stays its own.
        known = _positions[id(code)] = (code, tuple(code.co_positions()), code.co_code)  # type: ignore[attr-defined]
    index = lasti // 2
    text = known[2]
    if 0 < index < len(text) // 2 and text[lasti] in _TESTS:
        # The condition of a jump comes before it; the jump itself may have the position of an earlier operand.
        index -= 1
        while index > 0 and text[2 * index] == dis.EXTENDED_ARG:
            index -= 1
    return known[1][index] if 0 <= index < len(known[1]) else (None, None, None, None)


def _of_definition(code: CodeType, lasti: int) -> Span | None:
    """The span of a parameter or of a return value: both need the file's syntax tree."""
    if len(_definitions) > 256:
        _definitions.clear()
    known = _definitions.get((id(code), lasti))
    if known is None:
        found = _span_by_line.returned(code) if lasti == RETURN else _span_by_line.parameter(code, -1 - lasti)
        known = _definitions[id(code), lasti] = code, None if found is None else Span(code.co_filename, *found)
    return known[1]


def resolve(site: Site | None) -> Span | None:
    """The span of the innermost expression of ``site``, or None for a node without a source line.

    CPython 3.11 and newer record columns; otherwise (also under ``-X no_debug_ranges``) the instruction is matched with
    the file's syntax tree. If that fails, the span covers the text of the line.
    """
    if site is None:
        return None
    code, lasti = site[0], site[1]
    if lasti < 0:
        return _of_definition(code, lasti)
    if hasattr(code, "co_positions"):
        line, end_line, column, end_column = _position_of(code, lasti)
        if line is not None and end_line is not None and column is not None and end_column is not None:
            return Span(code.co_filename, line, column, end_line, end_column)
    found = _span_by_line.locate(code, lasti)
    return None if found is None else Span(code.co_filename, *found)


def call_path(site: Site | None) -> tuple[Span, ...]:
    """The spans from the traced root's frame down to the innermost one, which is ``resolve(site)``.

    Before CPython 3.12 a comprehension runs in a frame of its own: the comprehension as a whole is no further step.
    """
    spans: list[Span] = []
    inner = None
    while site is not None:
        span = resolve(site)
        if span is not None and inner not in _COMPREHENSIONS:
            spans.append(span)
        inner, site = site[0].co_name, site[2]
    spans.reverse()
    return tuple(spans)


def source_text(span: Span) -> str | None:
    """The text that ``span`` covers, or None when the file cannot be read."""
    lines = linecache.getlines(span.file)
    if not 0 < span.line <= span.end_line <= len(lines):
        return None
    part = [text.encode() for text in lines[span.line - 1 : span.end_line]]
    part[-1] = part[-1][: span.end_column]
    part[0] = part[0][span.column :]
    return b"".join(part).decode(errors="replace")


def expression(span: Span) -> ast.expr | None:
    """The syntax tree of the text that ``span`` covers when that text is one expression, else None."""
    text = source_text(span)
    if text is None:
        return None
    try:
        return ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError:
        return None
