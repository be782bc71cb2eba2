"""The name at a position of a text: a parameter, a local variable or an attribute in a function."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fxlens.record import Span, span

from .files import ERRORS

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LONGEST = 400_000  # characters of a text that is parsed for one hover


@dataclass(frozen=True)
class Name:
    """``x`` or ``self.weight``, read or ``stored`` in a ``line``; parameters are stored in the first line of their
    function, that of a decorator.  The function is on the lines from ``first`` to ``last``."""

    text: str
    line: int
    stored: bool
    span: Span
    first: int
    last: int


def name_at(text: str, path: str, line: int, column: int) -> Name | None:
    """The name there; None for one that is called, since what its call gives says more, and for the ``self`` of a
    method."""
    if len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(text)
    except ERRORS:
        return None
    around = [each for each in ast.walk(tree) if isinstance(each, FUNCTIONS) and _around(each, line, column)]
    if not around:
        return None
    inner = around[-1]
    for parent in ast.walk(inner):
        for node in ast.iter_child_nodes(parent):
            if not isinstance(node, (ast.arg, ast.Name, ast.Attribute)) or not _holds(node, line, column):
                continue
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node)
            called = isinstance(parent, ast.Call) and parent.func is node
            if called or name == "self" or not all(part.isidentifier() for part in name.split(".")):
                continue
            at, (end_line, end_column) = node.lineno, _end(node)
            if isinstance(node, ast.arg):
                at = next(_first(each) for each in around if node in ast.walk(each.args))
            stored = isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store)
            place = span(path, node.lineno, node.col_offset, end_line, end_column)
            return Name(name, at, stored, place, _first(inner), _last(inner))
    return None


def _around(function: Function, line: int, column: int) -> bool:
    begins, ends = (function.lineno, function.col_offset), (function.end_lineno or 0, function.end_col_offset or 0)
    return begins <= (line, column) <= ends


def _holds(node: ast.arg | ast.Name | ast.Attribute, line: int, column: int) -> bool:
    """Whether a position is in the name itself, which is the last one of an attribute."""
    end = _end(node)
    begins = (node.lineno, node.col_offset)
    if isinstance(node, ast.Attribute):
        begins = (end[0], end[1] - len(node.attr.encode()))
    return begins <= (line, column) <= end


def _end(node: ast.arg | ast.Name | ast.Attribute) -> tuple[int, int]:
    if isinstance(node, ast.arg):  # without its annotation
        return node.lineno, node.col_offset + len(node.arg.encode())
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _first(function: Function) -> int:
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return min(each.lineno for each in (function, *decorators))


def _last(function: Function) -> int:
    return function.end_lineno or function.lineno
