"""Syntax trees of functions that run, found from their code objects, and the expression at a span.

Only the lines of one function are parsed, which takes a fraction of the time of parsing its file. Text comes from
`linecache`, so text that is not on disk must be put there before it is executed.
"""

from __future__ import annotations

import ast
import functools
import linecache
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any

from fxlib.ir.span import Span

__all__ = [
    "ancestors", "at_span", "column_of", "function_tree", "head_of", "moved", "nodes_of", "parse", "span_of", "text_of",
]  # fmt: skip

FunctionTree = ast.FunctionDef | ast.AsyncFunctionDef

_functions: dict[int, tuple[weakref.ref[CodeType], FunctionTree | None]] = {}
# By identity, since equal code of two files has two trees. Kept as long as the code lives, so that ids of nodes stay
# valid.
_written: weakref.WeakValueDictionary[tuple[str, str, int, str], FunctionTree] = weakref.WeakValueDictionary()
# By file, name, first line and text, so that unchanged functions of a file that is executed again keep their trees.


def function_tree(code: CodeType) -> FunctionTree | None:
    """The definition that ``code`` was compiled from, with the positions of its file; None for lambdas, comprehensions
    and code without source. Each node has an attribute ``parent`` (None at the definition), and the definition a list
    of all ``nodes`` and what was ``found`` at spans."""
    number = id(code)
    known = _functions.get(number)
    if known is None:
        forget = functools.partial(_functions.pop, number)
        known = _functions[number] = (weakref.ref(code, forget), _shared(code))
    return known[1]


def _shared(code: CodeType) -> FunctionTree | None:
    lines, first, last = linecache.getlines(code.co_filename), code.co_firstlineno, _last_line(code)
    if code.co_name.startswith("<") or last is None:
        return _linked(parse(code))
    mark = (code.co_filename, code.co_name, first, "".join(lines[max(first - 1, 0) : last]))
    tree = _written.get(mark)
    if tree is None:
        tree = _linked(parse(code))
        if tree is not None and tree.end_lineno == last:
            _written[mark] = tree
            tree.mark = mark  # type: ignore[union-attr]
    return tree


def moved(old: CodeType, new: CodeType) -> None:
    """Transfer the cached tree from ``old`` to ``new``, the same code on other lines, which has replaced it
    everywhere."""
    known = _functions.pop(id(old), None)
    tree: Any = known and known[1]
    if tree is None or min(each.lineno for each in (tree, *tree.decorator_list)) != old.co_firstlineno:
        return
    by = new.co_firstlineno - old.co_firstlineno
    for node in tree.nodes:
        if hasattr(node, "lineno"):
            node.lineno += by
            node.end_lineno += by
    tree.found.clear()
    if mark := vars(tree).pop("mark", None):
        _written.pop(mark, None)
    for of, (lookers, made) in vars(tree).get("rewritten", {}).items():
        tree.rewritten[of] = lookers, made and (_below(made[0], by), made[1])
    _functions[id(new)] = weakref.ref(new, functools.partial(_functions.pop, id(new))), tree


def _below(code: CodeType, by: int) -> CodeType:
    inner = tuple(_below(each, by) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_firstlineno=code.co_firstlineno + by, co_consts=inner)


def parse(code: CodeType) -> FunctionTree | None:
    """As `function_tree`, but a new tree that may be changed."""
    if code.co_name.startswith("<"):
        return None
    lines = linecache.getlines(code.co_filename)
    first = code.co_firstlineno
    if not 0 < first <= len(lines):
        return None
    last = _last_line(code)
    tree = _parse_lines(lines, first, last, code.co_name) if last is not None else None
    return tree if tree is not None else _find(_parse_file(lines), code)


def _last_line(code: CodeType) -> int | None:
    """The last line of any instruction of ``code``, including nested functions."""
    if not hasattr(code, "co_positions"):
        return None
    last = max((end for _, end, _, _ in code.co_positions() if end is not None), default=code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            last = max(last, _last_line(constant) or 0)
    return last


def _parse_lines(lines: list[str], first: int, last: int, name: str) -> FunctionTree | None:
    text = "".join(lines[first - 1 : last])
    # Leading empty lines give the text the line numbers of its file.
    indented = text[:1] in (" ", "\t") and first > 1
    head = "\n" * (first - 2) + "if 1:\n" if indented else "\n" * (first - 1)
    try:
        body: list[Any] = ast.parse(head + text).body
    except (SyntaxError, ValueError):
        return None
    if indented:
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef)) or body[0].name != name:
        return None
    return body[0]


def _parse_file(lines: list[str]) -> ast.Module | None:
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None


def _find(tree: ast.Module | None, code: CodeType) -> FunctionTree | None:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if line == code.co_firstlineno:
                return node
    return None


def class_head(file: str, name: str) -> Span | None:
    """``class Name`` of the first class of that name in a file."""
    tree = _parse_file(linecache.getlines(file))
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            end = node.col_offset + len(f"class {name}".encode())
            return Span(file, node.lineno, node.col_offset, node.lineno, end)
    return None


def _linked(tree: FunctionTree | None) -> FunctionTree | None:
    if tree is None:
        return None
    tree.parent = None  # type: ignore[union-attr]
    tree.nodes = nodes_of(tree, link=True)  # type: ignore[union-attr]
    tree.found = {}  # type: ignore[union-attr]
    return tree


def nodes_of(tree: Any, link: bool = False) -> list[Any]:
    """The nodes under and including ``tree``, without contexts and operators; always in the same order for the same
    text. ``link`` gives each its ``parent``."""
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            for child in value if value.__class__ is list else (value,):
                if isinstance(child, ast.AST) and (child._fields or isinstance(child, ast.stmt)):
                    if link:
                        child.parent = node  # type: ignore[attr-defined]
                    found.append(child)
    return found


def ancestors(node: ast.AST) -> Iterator[Any]:
    """The nodes around ``node``, innermost first, up to the function's definition."""
    above = getattr(node, "parent", None)
    while above is not None:
        yield above
        above = getattr(above, "parent", None)


def span_of(node: Any, file: str) -> Span:
    """The span of an expression or statement."""
    return Span(file, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def head_of(code: CodeType) -> Span | None:
    """The span of ``def name`` of a function; None if it has no source."""
    tree = function_tree(code)
    if tree is None:
        return None
    end = tree.col_offset + len(f"def {tree.name}")
    return span_of(tree, code.co_filename)._replace(end_line=tree.lineno, end_column=end)


def _range(node: Any) -> tuple[int, int, int, int]:
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def at_span(tree: ast.AST, span: Span) -> Any:
    """The outermost expression or statement that covers exactly ``span``, otherwise the innermost that contains it."""
    found: dict[Span, Any] | None = getattr(tree, "found", None)
    if found is None:
        return _at_span(tree, span)
    if span not in found:
        found[span] = _at_span(tree, span)
    return found[span]


def _at_span(tree: ast.AST, span: Span) -> Any:
    exact = None
    inside: Any = None
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.expr, ast.stmt)):
            line, column, end_line, end_column = _range(node)
            if (line, column) > start or (end_line, end_column) < end:
                continue
            if ((line, column), (end_line, end_column)) == (start, end) and exact is None:
                # A call that is a statement is found as the call.
                exact = node.value if isinstance(node, ast.Expr) else node
            inside = node
        todo.extend(ast.iter_child_nodes(node))
    return exact if exact is not None else inside


def text_of(node: ast.AST) -> str:
    """The expression on one line, as Python would write it, shortened to what fits a message."""
    text = ast.unparse(node)
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


def column_of(node: Any) -> tuple[int, int]:
    """Line and column where a node starts."""
    return (node.lineno, node.col_offset)
