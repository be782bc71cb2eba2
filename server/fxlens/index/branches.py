"""Reading of branches: which way known values go.

A branch not taken is read, too, if it constructs something: the candidate is then less sure, and the branch's condition
is assumed (`elif args.model == "unet":`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fxlens.sources.uses import is_main_guard

from . import values as v
from .machine import Machine

_ENDS = ("return", "raise", "break", "continue")


class Branches(Machine):
    """``if``, ``match`` and ``try``."""

    def do_If(self, node: ast.If) -> str | None:
        if not self.frame.name and is_main_guard(node):
            return self.block(node.body)
        known = v.truth(self.value(node.test))
        taken, other = (node.orelse, node.body) if known is False else (node.body, node.orelse)
        if known is None:
            return self._perhaps(node)
        if other and self.workspace.interesting(ast.Module(other, [])):
            with self.not_taken(), self.assumed(node.test, not known):
                self.block(other)
        ended = self.block(taken)
        # A check that stops the program depends on its environment, which is not ours: no GPU, no data set.
        return None if ended == "raise" and taken is node.body else ended

    def _perhaps(self, node: ast.If) -> str | None:
        """Reads both ways; known values are kept."""
        if not node.orelse:
            with self.perhaps(), self.assumed(node.test, True):
                self.block(node.body)
            return None
        before = dict(self.frame.names)
        with self.perhaps(), self.assumed(node.test, True):
            first = self.block(node.body)
        after = dict(self.frame.names)
        self.frame.names.clear()
        self.frame.names.update(before)
        with self.perhaps(), self.assumed(node.test, False):
            second = self.block(node.orelse)
        if first in _ENDS and second in _ENDS:
            return "return" if "return" in (first, second) else first
        if first in _ENDS:
            return None
        if second in _ENDS:
            self.frame.names.clear()
            self.frame.names.update(after)
            return None
        for name, value in after.items():
            old = self.frame.names.get(name)
            if isinstance(old, v.Value) and isinstance(value, v.Value) and old is not value:
                self.frame.names[name] = self.either(value, old)
            elif old is None:
                self.frame.names[name] = value
        return None

    @contextmanager
    def assumed(self, test: ast.expr, holds: bool) -> Iterator[None]:
        """Assumes the condition of a branch for names and attributes while it is read."""
        undo: list[tuple[Any, Any, Any]] = []
        for node, value in _conditions(test, holds):
            self._assume(node, value, undo)
        try:
            yield
        finally:
            for items, key, old in reversed(undo):
                if old is None:
                    items.pop(key, None)
                else:
                    items[key] = old

    def _assume(self, node: ast.expr, value: ast.expr | bool, undo: list[tuple[Any, Any, Any]]) -> None:
        made = v.Const(value) if isinstance(value, bool) else self.value(value)
        if not isinstance(made, v.Const):
            return
        items: dict[Any, Any] | None = None
        key: Any = None
        if isinstance(node, ast.Name):
            items, key = self.frame.names, node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            owner = self.value(node.value)
            if isinstance(owner, v.Object):
                items, key = owner.fields, node.attr if isinstance(node, ast.Attribute) else None
            elif isinstance(owner, v.Mapping):
                items = owner.items
                try:
                    key = node.attr if isinstance(node, ast.Attribute) else v.literal(self.value(node.slice))
                except v.Unknown:
                    return
        if items is None or key is None:
            return
        old = items.get(key)
        known = v.truth(old) if isinstance(old, v.Value) else None
        if isinstance(made.value, bool) and (isinstance(old, (v.Object, v.Class, v.Choice)) or known is made.value):
            return
        undo.append((items, key, old))
        items[key] = made

    def do_Match(self, node: ast.Match) -> None:
        self.value(node.subject)
        for case in node.cases:
            pattern = case.pattern
            value = pattern.value if isinstance(pattern, ast.MatchValue) else None
            test = ast.Compare(node.subject, [ast.Eq()], [value]) if value else ast.Constant(True)
            with self.perhaps(), self.assumed(test, True):
                self.block(case.body)

    def do_Try(self, node: ast.Try) -> str | None:
        ended = self.block(node.body)
        if ended is None:
            ended = self.block(node.orelse)
        for handler in node.handlers:
            if ended == "raise":
                ended = self.block(handler.body)
            elif self.workspace.interesting(handler):
                with self.not_taken():
                    self.block(handler.body)
        return self.block(node.finalbody) or ended

    do_TryStar = do_Try


def _conditions(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, ast.expr | bool]]:
    """Expressions and their values that follow from a condition being true (or false)."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _conditions(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for operand in test.values:
            yield from _conditions(operand, holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and holds:
        yield from _conditions(test.values[0], True)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        op, right = test.ops[0], test.comparators[0]
        if isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)) and isinstance(op, (ast.Eq, ast.Is)) is holds:
            yield test.left, right
        elif isinstance(op, ast.In) and holds and isinstance(right, (ast.List, ast.Tuple, ast.Set)) and right.elts:
            yield test.left, right.elts[0]
    elif isinstance(test, (ast.Name, ast.Attribute, ast.Subscript)):
        yield test, holds
