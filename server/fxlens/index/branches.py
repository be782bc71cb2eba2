"""Reading of branches: which way known values go.

A branch not taken is read, too, if it constructs something: the candidate is then less sure, and the branch's condition
is assumed (`elif args.model == "unet":`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fxlens.sources.uses import is_main_guard

from . import patterns, ways
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
        """Reads both ways; of two known values, the usual one is kept."""
        with self.way() as first, self.assumed(node.test, True):
            ended = self.block(node.body)
        with self.way() as second, self.assumed(node.test, False):
            otherwise = self.block(node.orelse)
        found = [(first, ended), (second, otherwise)]
        return self._one_of(found if node.orelse else found[::-1])

    @contextmanager
    def assumed(self, test: ast.expr, holds: bool) -> Iterator[None]:
        """Assumes the condition of a branch for names and attributes while it is read."""
        undo: list[tuple[Any, Any, Any, v.Value]] = []
        for node, value in _conditions(test, holds):
            self._assume(node, value, undo)
        try:
            yield
        finally:
            for items, key, old, made in reversed(undo):
                if items.get(key) is not made:
                    continue  # assigned since
                if old is None:
                    del items[key]
                else:
                    items[key] = old

    def _assume(self, node: ast.expr, value: ast.expr | bool, undo: list[tuple[Any, Any, Any, v.Value]]) -> None:
        made = v.Const(value) if isinstance(value, bool) else self.value(value)
        if not isinstance(made, v.Const):
            return
        items: dict[Any, Any] | None = None
        key: Any = None
        if isinstance(node, ast.Name):
            items, key = self.frame.names, node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            owner = self.value(node.value)
            self.changes(owner)
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
        undo.append((items, key, old, made))
        items[key] = made

    def do_Match(self, node: ast.Match) -> str | None:
        subject = self.value(node.subject)
        found: list[tuple[ways.Way, str | None]] = []
        for case in node.cases:
            known = patterns.matches(self, case.pattern, subject)
            if known is False:
                if self.workspace.interesting(case):
                    with self.not_taken(), self.assumed(_test(node.subject, case.pattern), True):
                        self.block(case.body)
                continue
            with self.way() as way, self.assumed(_test(node.subject, case.pattern), True):
                patterns.bind(self, case.pattern, subject)
                guard = v.truth(self.value(case.guard)) if case.guard else True
                ended = self.block(case.body) if guard is not False else None
            if guard is not False:
                found.append((way, ended))
            if known and guard:
                break
        else:
            found.insert(0, (ways.Way(0), None))  # none of them
        return self._one_of(found)

    def _one_of(self, found: list[tuple[ways.Way, str | None]]) -> str | None:
        """After one of several ways, each with its end; the first is the usual one."""
        going = [way.after for way, ended in found if ended not in _ENDS]
        after = (going or [way.after for way, _ in found])[0]
        for other in going[1:]:
            after = ways.joined(after, other, self.chosen)
        ways.apply(after)
        ends = [ended for _, ended in found if ended in _ENDS]
        return None if going else "return" if "return" in ends else ends[0]

    def do_Try(self, node: ast.Try) -> str | None:
        importing = _handler(node, _NO_IMPORT) if self._imports_optional(node.body) else None
        if importing is not None:
            ended = self._with_optional(node, importing)
        else:
            guards = _handler(node, _NO_ATTRIBUTE) is not None
            self.frame.guarded += guards
            ended = self.block(node.body)
            self.frame.guarded -= guards
            if ended is None:
                ended = self.block(node.orelse)
        for handler in node.handlers:
            if ended == "raise":
                ended = self.block(handler.body)
            elif handler is not importing and self.workspace.interesting(handler):
                with self.not_taken():
                    self.block(handler.body)
        return self.block(node.finalbody) or ended

    do_TryStar = do_Try

    def _imports_optional(self, body: list[ast.stmt]) -> bool:
        """Whether statements import a package that may not be installed."""
        for node in body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                known = name.partition(".")[0] in _INSTALLED
                if not known and self.symbols.modules.resolve(self.frame.file, 0, name) is None:
                    return True
        return False

    def _with_optional(self, node: ast.Try, handler: ast.ExceptHandler) -> str | None:
        """Which way an optional import goes is unknown, and so are the numbers and flags set there."""
        with self.way() as there:
            ended = self.block(node.body) or self.block(node.orelse)
        with self.not_taken() as missing:
            otherwise = self.block(handler.body)
        if otherwise in _ENDS:
            ways.apply(there.after)
            return ended

        def choose(name: Any, one: v.Value, other: v.Value) -> v.Value:
            is_flag = isinstance(one, v.Const) and isinstance(other, v.Const) and one.value != other.value
            return v.Hole(str(name)) if is_flag else self.either(one, other)

        ways.apply(missing.after if ended in _ENDS else ways.joined(there.after, missing.after, choose))
        return None


_NO_IMPORT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_NO_ATTRIBUTE = {"AttributeError", "Exception", "BaseException"}
_INSTALLED = sys.stdlib_module_names | {"torch", "numpy"}


def _handler(node: ast.Try, names: set[str]) -> ast.ExceptHandler | None:
    """The first handler of one of these exceptions."""
    for each in node.handlers:
        kinds = each.type.elts if isinstance(each.type, ast.Tuple) else [each.type]
        if any(kind is None or getattr(kind, "id", "") in names for kind in kinds):
            return each
    return None


def _test(subject: ast.expr, pattern: ast.pattern) -> ast.expr:
    """A condition that a case assumes."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value])
    return ast.Constant(True)


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
