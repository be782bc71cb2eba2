"""What a name or an attribute gets in a file, by the text alone: all that is ever assigned to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from fxlib.diagnosis.fixes.source import FunctionNode, Source

__all__ = ["Given", "is_inner", "taken_away", "to_attribute", "to_name"]

Given = Iterator[tuple["ast.AST | None", "FunctionNode | None"]]
"""Expressions, each with the function in which it stands; None for what the text does not say."""


def to_name(source: Source, node: ast.Name, function: FunctionNode | None) -> Given:
    """What a name gets that is read in a function, or at module level; the parameter of that name as `ast.arg`."""
    inner = list(_inside(source, node))
    yield from ((value, function) for value in inner) if inner else _in_scope(source, node.id, function)


def is_inner(source: Source, node: ast.Name) -> bool:
    """Whether a name belongs to a lambda or a comprehension around it."""
    return bool(list(_inside(source, node)))


def _inside(source: Source, node: ast.Name) -> Iterator[ast.AST | None]:
    """What the innermost lambda or comprehension around a name gives to it, if it binds one of that name."""
    above = source.parents.get(node)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.Lambda) and any(
            node.id == each.arg for each in ast.walk(above.args) if isinstance(each, ast.arg)
        ):
            yield None
            return
        for generator in getattr(above, "generators", ()):
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name) and target.id == node.id and target is not node:
                    yield from _from_statement(generator, target)
                    return
        above = source.parents.get(above)


@lru_cache(maxsize=1024)
def _in_scope(
    source: Source, name: str, function: FunctionNode | None
) -> tuple[tuple[ast.AST | None, FunctionNode | None], ...]:
    return tuple(_of_scope(source, name, function))


def _of_scope(source: Source, name: str, function: FunctionNode | None) -> Given:
    if function is None:
        yield from ((value, None) for value in _bound(source.tree.body, name))
        return
    arguments = function.args
    for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if each.arg == name:
            yield each, function
    if name in {each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None}:
        yield None, None
    found = list(_bound(function.body, name))
    yield from ((value, function) for value in found)
    if not found and all(each.arg != name for each in ast.walk(arguments) if isinstance(each, ast.arg)):
        yield None, None  # of the module, where anybody may write to it


def to_attribute(source: Source, owner: ast.ClassDef | None, name: str) -> Given:
    """What an attribute gets in a class, and from anybody in the file who writes to an attribute of that name."""
    if owner is not None:
        yield from ((value, None) for value in _bound(owner.body, name))
    for node in source.attributes.get(name, ()):
        if isinstance(node.ctx, ast.Store):
            statement, function = source.parents[node], source.function_of(node)
            yield from ((value, function) for value in _from_statement(statement, node))
    for node in (each for method in _REGISTERING for each in source.attributes.get(method, ())):
        call = source.parents[node]
        if isinstance(call, ast.Call) and len(call.args) > 1 and getattr(call.args[0], "value", None) == name:
            yield call.args[1], source.function_of(call)


_REGISTERING = ("register_buffer", "register_parameter")


def _bound(block: list[ast.stmt], name: str) -> Iterator[ast.AST | None]:
    """What the statements of a block, less those of functions and classes in it, give to a name."""
    for statement in block:
        if isinstance(statement, FunctionNode | ast.ClassDef):
            if statement.name == name:
                yield None
            continue
        inner = [each for part in ("body", "orelse", "finalbody", "handlers") for each in getattr(statement, part, ())]
        own = [each for each in ast.iter_child_nodes(statement) if each not in inner]
        for node in (each for head in own for each in ast.walk(head)):
            if isinstance(node, ast.NamedExpr) and node.target.id == name:
                yield node.value
            elif isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                yield from _from_statement(statement, node)
        yield from _bound([each for each in inner if isinstance(each, ast.stmt)], name)
        for handler in getattr(statement, "handlers", ()):
            yield from _bound(handler.body, name)


def _from_statement(statement: ast.AST, target: ast.expr) -> Iterator[ast.AST | None]:
    """What a statement gives to a target in it."""
    if isinstance(statement, ast.AugAssign):
        yield ast.BinOp(statement.target, statement.op, statement.value)
    elif isinstance(statement, ast.AnnAssign):
        yield statement.value if statement.value is not None else ast.arg("", statement.annotation)
    elif isinstance(statement, ast.For | ast.comprehension):
        counts = getattr(getattr(statement.iter, "func", None), "id", "")
        yield _item(statement.iter, 0, 0) if statement.target is target and not counts else None
    elif isinstance(statement, ast.Assign):
        for each in statement.targets:
            items = getattr(each, "elts", [])
            if each is target:
                yield statement.value
            elif target in items:
                yield _item(statement.value, items.index(target), len(items))
            elif target in ast.walk(each):
                yield None
    else:
        yield None


def _item(value: ast.expr, index: int, count: int) -> ast.AST | None:
    """What unpacking a value into ``count`` targets gives the one at an index; of a loop over it, into 0."""
    if isinstance(value, ast.Tuple | ast.List) and count:
        return value.elts[index] if len(value.elts) == count else None
    return ast.Subscript(value, ast.Constant(index))


@lru_cache(maxsize=256)
def taken_away(function: ast.AST) -> frozenset[str]:
    """The names that a function may leave without a value, or give one in another way than an assignment does."""
    return frozenset(each for node in ast.walk(function) for each in _taken_away(node))


def _taken_away(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Delete):
        yield from (each.id for each in node.targets if isinstance(each, ast.Name))
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield node.name or ""
    elif isinstance(node, ast.MatchMapping):
        yield node.rest or ""
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
    elif isinstance(node, ast.alias):
        yield node.asname or node.name
