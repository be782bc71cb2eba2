"""Positions that bytecode does not record: columns where only lines are recorded, parameters, return statements.

An instruction is matched with the syntax tree of its file: instructions appear in the order in which expressions are
evaluated, so the k-th call instruction of a function on a line belongs to the k-th call expression, in post-order,
that starts on that line. Used by `fxlib.span` alone.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["locate", "parameter", "returned"]

Position = tuple[int, int, int, int]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAMES: dict[type, str] = {ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>"}
_trees: dict[str, _Tree] = {}


def _kind_of_instruction(instruction: dis.Instruction) -> type[ast.AST] | None:
    """The kind of expression that an instruction finishes."""
    name = instruction.opname
    if name == "BINARY_OP" and instruction.argrepr.endswith("="):
        return ast.AugAssign
    if name.startswith("CALL"):
        return ast.Call
    if name == "BINARY_SUBSCR":
        return ast.Subscript
    if name == "COMPARE_OP":
        return ast.Compare
    if name.startswith("BINARY_"):
        return ast.BinOp
    if name.startswith("INPLACE_"):
        return ast.AugAssign
    if name.startswith("UNARY_"):
        return ast.UnaryOp
    if name == "LOAD_ATTR":
        return ast.Attribute
    if name == "UNPACK_SEQUENCE":
        return ast.Tuple
    if name in ("STORE_SUBSCR", "DELETE_SUBSCR"):
        return ast.Subscript
    return None


def _instructions(code: CodeType) -> Iterator[tuple[int, int, type[ast.AST] | None]]:
    """(offset, line, kind of expression finished) of each instruction."""
    lines = {start: line for start, line in dis.findlinestarts(code) if line is not None}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = lines.get(instruction.offset, line)
        yield instruction.offset, line, _kind_of_instruction(instruction)


class _Tree:
    """The syntax tree of a file with these lines."""

    def __init__(self, lines: list[str]) -> None:
        """Raises SyntaxError."""
        self.lines = lines
        self.module = ast.parse("".join(lines))

    @functools.cached_property
    def scopes(self) -> dict[tuple[str, int], ast.AST]:
        """The syntax nodes of code objects, by name and first line."""
        found: dict[tuple[str, int], ast.AST] = {}
        for node in ast.walk(self.module):
            if isinstance(node, _SCOPES):
                name = getattr(node, "name", "<lambda>")
            elif isinstance(node, _COMPREHENSIONS):
                name = _NAMES.get(type(node), "<genexpr>")
            else:
                continue
            found.setdefault((name, _first_line(node)), node)
        return found


def _tree(filename: str) -> _Tree | None:
    lines = linecache.getlines(filename)
    if not lines:
        return None
    known = _trees.get(filename)
    if known is None or (known.lines is not lines and known.lines != lines):
        try:
            known = _Tree(lines)
        except SyntaxError:
            return None
        if len(_trees) > 64:
            _trees.clear()
        _trees[filename] = known
    return known


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", None)
    return min([d.lineno for d in decorators] + [node.lineno]) if decorators else getattr(node, "lineno", 0)


def _scope(tree: _Tree, code: CodeType) -> ast.AST | None:
    if code.co_name == "<module>":
        return tree.module
    return tree.scopes.get((code.co_name, code.co_firstlineno))


def _evaluated(node: ast.AST, top: bool = True) -> Iterator[ast.AST]:
    """The nodes of one scope in the order in which the compiler emits code for them."""
    if not top and isinstance(node, _SCOPES):
        return
    if not top and isinstance(node, _COMPREHENSIONS):
        yield from _evaluated(node.generators[0].iter, False)
        return
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign):
        children = [node.value, *node.targets]
    elif isinstance(node, ast.AugAssign):
        children = [node.target, node.value]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        children = [node.iter, node.target, *node.body, *node.orelse]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        children = list(node.body)
    elif isinstance(node, ast.Lambda):
        children = [node.body]
    elif isinstance(node, ast.Dict):
        children = [part for pair in zip(node.keys, node.values, strict=True) for part in pair if part is not None]
    for child in children:
        yield from _evaluated(child, False)
    yield node


def _position(node: ast.AST) -> Position:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def _whole_line(filename: str, line: int) -> Position | None:
    text = linecache.getline(filename, line).rstrip("\r\n")
    stripped = text.strip()
    if not stripped:
        return line, 0, line, 0
    start = len(text) - len(text.lstrip())
    return line, len(text[:start].encode()), line, len(text.rstrip().encode())


def locate(code: CodeType, lasti: int) -> Position | None:
    """(line, column, end line, end column) of the instruction at offset ``lasti`` of ``code``."""
    target = None
    seen: dict[tuple[type[ast.AST], int], int] = {}
    line = code.co_firstlineno
    for offset, at, kind in _instructions(code):
        if offset > lasti:
            break
        # The last one not after ``lasti``, which may lie in the instruction's inline cache.
        if target is not None:
            seen[target, line] = seen.get((target, line), 0) + 1
        line, target = at, kind
    if target is None:
        return _whole_line(code.co_filename, line)
    tree = _tree(code.co_filename)
    scope = None if tree is None else _scope(tree, code)
    if scope is None:
        return _whole_line(code.co_filename, line)
    rank = seen.get((target, line), 0)
    for node in _evaluated(scope):
        if not isinstance(node, target) or node is scope:
            continue
        if isinstance(node, ast.Tuple) and not isinstance(node.ctx, ast.Store):
            continue
        if isinstance(node, ast.Attribute) and (not isinstance(node.ctx, ast.Load) or _is_method(node, scope)):
            continue
        if _line_of_instruction(node) == line:
            if rank == 0:
                return _position(node)
            rank -= 1
    return _whole_line(code.co_filename, line)


def _is_method(node: ast.Attribute, scope: ast.AST) -> bool:
    """Whether ``node`` is the callee of a call, which compiles to LOAD_METHOD, not LOAD_ATTR."""
    return any(isinstance(call, ast.Call) and call.func is node for call in ast.walk(scope))


def _line_of_instruction(node: ast.AST) -> int:
    """The line the compiler gives to the instruction: that of the method's name for a method call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    if isinstance(node, ast.Attribute):
        return node.end_lineno or node.lineno
    return node.lineno  # type: ignore[attr-defined]


def parameter(code: CodeType, index: int) -> Position | None:
    """Where the parameter ``index`` of ``code`` (in ``co_varnames``) is declared, its annotation included."""
    scope = _function(code)
    if scope is None or not 0 <= index < len(code.co_varnames):
        return None
    a = scope.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return next((_position(arg) for arg in every if arg.arg == code.co_varnames[index]), None)


def returned(code: CodeType) -> Position | None:
    """Where ``code`` returns its value, if there is one such place."""
    scope = _function(code)
    if scope is None:
        return None
    if isinstance(scope, ast.Lambda):
        return _position(scope.body)
    found = [node.value for node in _evaluated(scope) if isinstance(node, ast.Return) and node.value is not None]
    return _position(found[0]) if len(found) == 1 else None


def _function(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    tree = _tree(code.co_filename)
    scope = None if tree is None else _scope(tree, code)
    return scope if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) else None
