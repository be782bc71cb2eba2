"""The probed expressions of a function: those that the runs need, and those that detectors add.

A looker gets a node of the syntax tree and adds ``(kind, expression)`` for each expression whose value is to be
reported. The lookers here are for questions that torch.fx does not answer; detectors add their own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.forms import is_none_test
from fxlib.ir.span import Span

__all__ = ["ENTRIES", "LOOKERS", "Found", "Looker", "Lookers", "Probe", "plan"]

Found = list[tuple[str, Any]]
Looker = Callable[[Any, Found], None]
Lookers = Mapping[type[ast.AST], Sequence[Looker]]

ENTRIES = frozenset({"enter", "body", "orelse", "rest", "handler"})
"""Kinds without a value: a function or block is entered."""
_BLOCKS = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.ExceptHandler: ("body",),
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One probed place. ``kind`` is its purpose, ``node`` the expression, ``tree`` its function."""

    kind: str
    node: Any
    file: str
    code: CodeType
    tree: Any

    @property
    def span(self) -> Span:
        return trees.span_of(self.node, self.file)


def _tests(node: ast.expr, found: Found) -> None:
    """The operands of ``node`` that Python converts to bool when it converts ``node``."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _tests(value, found)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _tests(node.operand, found)
    elif not isinstance(node, (ast.Constant, ast.NamedExpr)):
        found.append(("test", node))


def _look_test(node: Any, found: Found) -> None:
    _tests(node.test, found)


def _look_not(node: ast.UnaryOp, found: Found) -> None:
    if isinstance(node.op, ast.Not):
        _tests(node.operand, found)


def _look_boolean(node: ast.BoolOp, found: Found) -> None:
    for value in node.values[:-1]:
        _tests(value, found)


def _look_comprehension(node: ast.comprehension, found: Found) -> None:
    found.append(("iter", node.iter))
    for test in node.ifs:
        _tests(test, found)


def _look_for(node: Any, found: Found) -> None:
    found.append(("iter", node.iter))


def _look_compare(node: ast.Compare, found: Found) -> None:
    compares = len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn)) and not is_none_test(node)
    if compares and isinstance(node.left, (ast.Attribute, ast.Name)):
        found.append(("operand", node.left))


def _look_call(node: ast.Call, found: Found) -> None:
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            found.append(("star", argument.value))
    for keyword in node.keywords:
        if keyword.arg is None:
            found.append(("mapping", keyword.value))


def _look_dict(node: ast.Dict, found: Found) -> None:
    found.extend(("mapping", value) for key, value in zip(node.keys, node.values, strict=True) if key is None)


def _look_display(node: Any, found: Found) -> None:
    if not isinstance(getattr(node, "ctx", None), ast.Store):
        found.extend(("star", item.value) for item in node.elts if isinstance(item, ast.Starred))


def _look_assign(node: ast.Assign, found: Found) -> None:
    for target in node.targets:
        if isinstance(target, (ast.Tuple, ast.List)) and any(isinstance(item, ast.Starred) for item in target.elts):
            found.append(("unpack", node.value))


LOOKERS: Lookers = {
    ast.If: [_look_test],
    ast.While: [_look_test],
    ast.IfExp: [_look_test],
    ast.Assert: [_look_test],
    ast.UnaryOp: [_look_not],
    ast.BoolOp: [_look_boolean],
    ast.comprehension: [_look_comprehension],
    ast.For: [_look_for],
    ast.Compare: [_look_compare],
    ast.Call: [_look_call],
    ast.Dict: [_look_dict],
    ast.List: [_look_display],
    ast.Tuple: [_look_display],
    ast.Set: [_look_display],
    ast.Assign: [_look_assign],
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The probes of one function: kinds by the id of the expression, and blocks whose entry is reported, as ``(id of
    the statement, its field)``."""

    kinds: dict[int, list[str]]
    blocks: frozenset[tuple[int, str]]

    def __bool__(self) -> bool:
        return bool(self.kinds or self.blocks)


def plan(tree: Any, lookers: Lookers) -> Plan:
    """The probes for ``tree``."""
    found: Found = []
    blocks: set[tuple[int, str]] = set()
    outside = _outside(tree)
    for node in tree.nodes:
        if node in outside:
            continue
        for looker in lookers.get(type(node), ()):
            looker(node, found)
        for name in _BLOCKS.get(type(node), ()):
            if getattr(node, name):
                blocks.add((id(node), name))
    kinds: dict[int, list[str]] = {}
    for kind, node in found:
        names = kinds.setdefault(id(node), [])
        if kind not in names:
            names.append(kind)
    return Plan(kinds, frozenset(blocks))


def _said(node: Any) -> list[Any]:
    if isinstance(node, ast.Assert):
        return [node.msg]
    return node.exc.args if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else []


def _outside(tree: Any) -> set[Any]:
    """Decorators, defaults and annotations, which do not run with the function; and the texts of exceptions."""
    found: set[Any] = set()
    said = [part for node in tree.nodes for part in _said(node)]
    for part in (*tree.decorator_list, tree.args, tree.returns, *said):
        if part is not None:
            found.update(trees.nodes_of(part))
    return found
