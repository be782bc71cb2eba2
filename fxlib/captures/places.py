"""From what torch says about a place (a line, columns, a traceback) to the exact expression in the user's source."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    """One step of a call stack as torch prints it: the line from 1, byte columns from 0 or None where unknown."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None
    name: str = ""


_NONE = ast.Module([], [])
_trees: dict[str, tuple[int, ast.Module | None]] = {}


def file_tree(file: str) -> ast.Module | None:
    """The syntax tree of a file as `linecache` has it; None where it has none or where it does not parse."""
    lines = linecache.getlines(file)
    text = "".join(lines)
    known = _trees.get(file)
    if known is None or known[0] != hash(text):
        if len(_trees) > 100:
            _trees.clear()
        try:
            tree = ast.parse(text) if text else None
        except (SyntaxError, ValueError):
            tree = None
        known = _trees[file] = (hash(text), tree)
    return known[1]


_owned: list[str] = []


@contextmanager
def owned(module: torch.nn.Module) -> Iterator[None]:
    """While this lasts, the files of the installed package that a module is defined in count as the user's."""
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
    """The forward of a module as the user wrote it, without decorators; None where it is not the user's."""
    function = inspect.getattr_static(type(module), "forward", None)
    function = inspect.unwrap(function) if isinstance(function, FunctionType) else None
    return function if isinstance(function, FunctionType) and is_users(function.__code__.co_filename) else None


def expression_at(frame: Frame) -> Span:
    """The span of the expression that a frame stands on.

    torch gives the line, the column where the expression starts and the column where it ends, but not the line where
    it ends. The syntax tree has the expression that fits. Without columns it is the statement of that line, up to its
    colon where it has a body.
    """
    tree = file_tree(frame.file)
    if frame.column is None:
        return _statement(tree, frame)
    start = (frame.line, frame.column)
    best: Any = None
    for node in _starting_at(tree, start):
        if frame.end_column is None or node.end_col_offset == frame.end_column:
            return _span(frame.file, node)
        best = best or node
    if any(isinstance(node, ast.stmt) and (node.lineno, node.col_offset) == start for node in ast.walk(tree or _NONE)):
        return _statement(tree, frame)
    if frame.end_column is not None and frame.end_column > frame.column:
        return Span(frame.file, frame.line, frame.column, frame.line, frame.end_column)
    return _span(frame.file, best) if best is not None else _statement(tree, frame)


def _starting_at(tree: ast.AST | None, start: tuple[int, int]) -> Iterator[Any]:
    """The expressions that start at a position, outermost first."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset) == start:
            yield node


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
            # What is negated is what is asked.
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
    """Of a comprehension, what it goes through: that is what runs when its first item is asked for."""
    for node in ast.walk(file_tree(span.file) or _NONE):
        if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if _span(span.file, node) == span:
            return _span(span.file, node.generators[0].iter)
    return span


def users_path(frames: Iterable[Frame]) -> tuple[Span, ...]:
    """The spans of the frames that are the user's own, outermost first. What runs inside an installed package or in
    torch is left out, so that the last span is the user's call of it."""
    return tuple(expression_at(frame) for frame in frames if is_users(frame.file))


def innermost(frames: Iterable[Frame]) -> Frame | None:
    """The last frame, in whoever's file it is."""
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
    """The columns come from the marks under the line, where the printer drew some."""
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
