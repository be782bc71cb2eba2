"""What code evaluates on every way through it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fxlib.diagnosis.engine.forms import may_catch
from fxlib.diagnosis.fixes.source import FunctionNode

__all__ = ["always", "evaluated"]


def always(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block that surely run, as far as one that may leave it, and those of every `with` in it."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.With) and not may_catch(statement):
            yield from always(statement.body)
        if any(isinstance(each, ast.Return | ast.Raise | ast.Break | ast.Continue) for each in ast.walk(statement)):
            return


def evaluated(statement: ast.stmt | ast.expr) -> Iterator[ast.AST]:
    """The expressions that a statement, or an expression, evaluates whatever happens, with their parts."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        return
    todo: list[ast.AST] = [
        each for each in ast.iter_child_nodes(statement) if not isinstance(each, ast.stmt | ast.ExceptHandler)
    ]
    if isinstance(statement, ast.expr):
        todo = [statement]
    if isinstance(statement, ast.Assert):
        todo = [statement.test]  # the message is made only where it fails
    if isinstance(statement, ast.Try | ast.Match):
        todo = [statement.subject] if isinstance(statement, ast.Match) else []
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.IfExp):
            todo.append(node.test)
        elif isinstance(node, ast.BoolOp):
            todo.append(node.values[0])
        elif isinstance(node, ast.Compare):
            todo += [node.left, node.comparators[0]]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            todo.append(node.generators[0].iter)
        elif not isinstance(node, ast.Lambda):
            todo += list(ast.iter_child_nodes(node))
