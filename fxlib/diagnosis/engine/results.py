"""Of which results of a Python function its text shows that they are never None."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch

from fxlib.diagnosis.engine.frames import named
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.trees import function_tree

__all__ = ["is_never_none"]

_VALUES = (
    ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp,
)  # fmt: skip
_DEPTH = 4


def is_never_none(function: FunctionType, given: Mapping[str, Any], item: Any = None, depth: int = _DEPTH) -> bool:
    """Whether each result is a value, where the function gets these arguments; others count as values. ``item``: of a
    tuple, the one at that place."""
    tree = function_tree(function.__code__)
    if tree is None or not depth or not _ends(tree.body):
        return False
    parameters = {each.arg for each in ast.walk(tree.args) if isinstance(each, ast.arg)}
    values: dict[str, list[ast.AST]] = {}
    results: list[ast.AST | None] = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Return):
            results.append(each.value)
        elif isinstance(each, ast.Assign | ast.For):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                whole = isinstance(each, ast.Assign) and isinstance(target, ast.Name)
                value: ast.AST = each.value if whole else ast.Tuple([])  # type: ignore[union-attr]
                for name in (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)):
                    values.setdefault(name, []).append(value)

    def is_value(node: ast.AST | None, seen: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, ast.Constant):
            return node.value is not None
        if isinstance(node, ast.IfExp):
            return is_value(node.body, seen) and is_value(node.orelse, seen)
        if isinstance(node, ast.BoolOp):
            return all(is_value(each, seen) for each in node.values[isinstance(node.op, ast.Or) and -1 :])
        if isinstance(node, ast.Attribute | ast.Subscript | ast.NamedExpr):
            return is_value(node.value, seen)
        if isinstance(node, ast.Name):
            known = values.get(node.id, [])
            there = given.get(node.id, True) is not None if node.id in parameters else bool(known)
            return there and (node.id in seen or all(is_value(each, seen | {node.id}) for each in known))
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Call):  # `torch.vmap(f)(x)`
                return is_value(node.func, seen)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = named(function, node.func)
            if isinstance(called, FunctionType) and not is_installed(called.__code__.co_filename):
                return is_never_none(called, {}, depth=depth - 1)
            return callable(called) or hasattr(torch.Tensor, method) or method == "apply"
        return isinstance(node, _VALUES)

    if item is not None:
        results = [_item(each, item) for each in results]
    return all(map(is_value, results))


def _item(value: ast.AST | None, item: Any) -> ast.AST | None:
    items = value.elts if isinstance(value, ast.Tuple) else []
    return items[item] if isinstance(item, int) and -len(items) <= item < len(items) else None


def _ends(block: list[ast.stmt]) -> bool:
    """Whether a block is always left by returning or raising."""
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return _ends(last.body) if isinstance(last, ast.With) else isinstance(last, ast.Return | ast.Raise)
