"""From torch's description of a place (a line, columns, a traceback) to the exact expression in the user's source."""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, TracebackType
from typing import Any, NamedTuple

import torch

from fxlib.diagnosis.engine.packages import is_installed, package_of
from fxlib.ir import span as spans
from fxlib.ir.span import Span

__all__ = [
    "Frame",
    "expression_at",
    "file_tree",
    "forward_of",
    "frames_of",
    "innermost",
    "is_users",
    "iterated",
    "owned",
    "shown",
    "users_path",
]


class Frame(NamedTuple):
    """One step of a call stack as torch prints it: the line from 1, byte columns from 0, or None if unknown."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None
    name: str = ""


_NONE = ast.Module([], [])


class _File:
    """The lines of a file as `linecache` has them, and cached queries of their syntax tree."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.spans: dict[tuple[int, int | None, int | None], Span] = {}
        self._starts: dict[tuple[int, int], list[ast.expr]] | None = None
        self.tree: ast.Module | None = None
        with contextlib.suppress(SyntaxError, ValueError):
            self.tree = ast.parse("".join(lines)) if lines else None

    def starting_at(self, start: tuple[int, int]) -> list[Any]:
        """The expressions that start at a position, outermost first."""
        if self._starts is None:
            self._starts = {}
            for node in ast.walk(self.tree) if self.tree is not None else ():
                if isinstance(node, ast.expr):
                    self._starts.setdefault((node.lineno, node.col_offset), []).append(node)
        return self._starts.get(start, [])


_files: dict[str, _File] = {}


def _file(file: str) -> _File:
    lines = linecache.getlines(file)
    known = _files.get(file)
    if known is None or known.lines is not lines:
        if len(_files) > 100:
            _files.clear()
        known = _files[file] = _File(lines)
    return known


def file_tree(file: str) -> ast.Module | None:
    """The syntax tree of a file as `linecache` has it; None if there is none or it does not parse."""
    return _file(file).tree


_owned: list[str] = []


@contextlib.contextmanager
def owned(module: torch.nn.Module) -> Iterator[None]:
    """Count the files of the installed package that defines a module as the user's while this is active."""
    file = getattr(sys.modules.get(type(module).__module__), "__file__", None) or ""
    _owned.append(package_of(file) if is_installed(file) else "")
    try:
        yield
    finally:
        _owned.pop()


def is_users(file: str) -> bool:
    """Whether a file is neither torch's, ours, the standard library's, an installed package's, nor generated."""
    if spans.is_hidden(file) or file.startswith("<"):
        return False
    return not is_installed(file) or (bool(_owned) and package_of(file) == _owned[-1])


def forward_of(module: torch.nn.Module) -> FunctionType | None:
    """The forward of a module as the user wrote it, without decorators; None if it is not the user's."""
    function = inspect.getattr_static(type(module), "forward", None)
    function = inspect.unwrap(function) if isinstance(function, FunctionType) else None
    return function if isinstance(function, FunctionType) and is_users(function.__code__.co_filename) else None


def expression_at(frame: Frame) -> Span:
    """The span of the expression that a frame is executing.

    torch gives the line, the start column and the end column of the expression, but not its end line. The syntax tree
    has the expression that fits. Without columns it is the statement of that line, up to its colon if it has a body.
    """
    file = _file(frame.file)
    place = (frame.line, frame.column, frame.end_column)
    if place not in file.spans:
        file.spans[place] = _expression_in(file, frame)
    return file.spans[place]


def _expression_in(file: _File, frame: Frame) -> Span:
    if frame.column is None:
        return _statement(file.tree, frame)
    starting = file.starting_at((frame.line, frame.column))
    for node in starting:
        if frame.end_column is None or node.end_col_offset == frame.end_column:
            return _span(frame.file, node)
    if any(_starts_at(node, frame) for node in ast.walk(file.tree or _NONE) if isinstance(node, ast.stmt)):
        return _statement(file.tree, frame)
    if frame.end_column is not None and frame.end_column > frame.column:
        return Span(frame.file, frame.line, frame.column, frame.line, frame.end_column)
    return _span(frame.file, starting[0]) if starting else _statement(file.tree, frame)


def _starts_at(node: ast.stmt, frame: Frame) -> bool:
    return (node.lineno, node.col_offset) == (frame.line, frame.column)


def _span(file: str, node: Any) -> Span:
    return Span(file, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _statement(tree: ast.AST | None, frame: Frame) -> Span:
    """The innermost statement of a line; of a compound one its head."""
    found: Any = None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and node.lineno <= frame.line <= (node.end_lineno or node.lineno):
            found = node
    if found is None:
        text = linecache.getline(frame.file, frame.line).rstrip("\r\n")
        indent = len(text) - len(text.lstrip())
        return Span(frame.file, frame.line, indent, frame.line, max(len(text.encode()), indent))
    for name in ("test", "iter", "subject"):
        head = getattr(found, name, None)
        if head is not None:
            # For a negation, the condition is its operand.
            while name == "test" and isinstance(head, ast.UnaryOp) and isinstance(head.op, ast.Not):
                head = head.operand
            return _span(frame.file, head)
    if isinstance(found, (ast.With, ast.AsyncWith)):
        return _span(frame.file, found.items[0].context_expr)
    if isinstance(found, ast.Expr):
        return _span(frame.file, found.value)
    if hasattr(found, "body"):
        name = getattr(found, "name", "")
        kind = "class" if isinstance(found, ast.ClassDef) else "def"
        width = len(f"{kind} {name}".encode()) if name else 3
        return Span(frame.file, found.lineno, found.col_offset, found.lineno, found.col_offset + width)
    return _span(frame.file, found)


def iterated(span: Span) -> Span:
    """The iterable of a comprehension, which is evaluated when its first item is requested."""
    for node in _file(span.file).starting_at((span.line, span.column)):
        is_comprehension = isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        if is_comprehension and _span(span.file, node) == span:
            return _span(span.file, node.generators[0].iter)
    return span


def users_path(frames: Iterable[Frame]) -> tuple[Span, ...]:
    """The spans of the frames that are the user's own, outermost first. Frames inside an installed package or torch are
    left out, so that the last span is the user's call of it."""
    return tuple(expression_at(frame) for frame in frames if is_users(frame.file))


def innermost(frames: Iterable[Frame]) -> Frame | None:
    """The last frame, in any file."""
    last = None
    for frame in frames:
        last = frame
    return last


_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)$')
_CARETS = re.compile(r"^(?P<blank>\s*)(?P<marks>[~^]+)\s*$")


def frames_of(stack: Any) -> list[Frame]:
    """The frames of a traceback object, of a list of `traceback.FrameSummary`, or of a stack as text."""
    if isinstance(stack, TracebackType):
        return list(_of_traceback(stack))
    if isinstance(stack, str):
        return list(_of_text(stack))
    return [
        Frame(each.filename, each.lineno, getattr(each, "colno", None), getattr(each, "end_colno", None), each.name)
        for each in stack or ()
    ]


def _of_traceback(traceback: TracebackType | None) -> Iterator[Frame]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        span = spans.resolve((code, traceback.tb_lasti, None)) if is_users(code.co_filename) else None
        if span is not None:
            yield Frame(span.file, span.line, span.column, span.end_column, code.co_name)
        else:
            yield Frame(code.co_filename, traceback.tb_lineno, None, None, code.co_name)
        traceback = traceback.tb_next


def _of_text(text: str) -> Iterator[Frame]:
    """The columns come from the marks under the line, if any."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        found = _FRAME.match(line)
        if found is None:
            continue
        frame = Frame(found["file"], int(found["line"]), None, None, found["name"])
        if index + 2 < len(lines) and (marks := _CARETS.match(lines[index + 2])):
            shown = lines[index + 1]
            source = linecache.getline(frame.file, frame.line).rstrip("\r\n")
            shift = (len(source) - len(source.lstrip())) - (len(shown) - len(shown.lstrip()))
            start, end = len(marks["blank"]) + shift, len(marks["blank"]) + len(marks["marks"]) + shift
            if 0 <= start < end <= len(source):
                # Marks count characters, spans count bytes.
                column, stop = len(source[:start].encode()), len(source[:end].encode())
                # An expression of several lines is marked to the end of the first.
                whole = end < len(source.split("#")[0].rstrip())
                frame = frame._replace(column=column, end_column=stop if whole else None)
        yield frame


def shown(span: Span | None) -> str:
    """The text of an expression on one line, short enough for a message."""
    text = " ".join((spans.source_text(span) or "").split()) if span is not None else "forward"
    return text if len(text) <= 60 else text[:57] + "..."
