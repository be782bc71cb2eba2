"""Which of its arguments a Python function may change, by its text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from fxlib.capture.wrapping import unwrapped
from fxlib.diagnosis.engine.frames import named
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.trees import function_tree

__all__ = ["CHANGING", "MAYBE_VIEWS", "VIEWS", "Writes", "writes_of"]

# fmt: off
VIEWS = frozenset({
    "chunk", "detach", "expand", "expand_as", "movedim", "narrow", "permute", "select", "split", "squeeze", "swapaxes",
    "t", "transpose", "unbind", "unsqueeze", "view", "view_as",
})
# fmt: on
"""Methods of tensors that always give views."""
MAYBE_VIEWS = VIEWS | {"reshape", "flatten", "contiguous", "__getitem__"}
"""Those that give views of some tensors."""

CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "move_to_end", "pop",
    "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update",
}  # fmt: skip
"""Methods that change a list, dictionary or set."""
_OF_LISTS = {"heapify", "heappop", "heappush", "insort", "insort_left", "insort_right", "shuffle"}
"""Functions of Python's that change the list that they are given."""
_PARTS = {"enumerate", "iter", "next", "reversed", "zip"}
_PARTS_OF = {"get", "items", "keys", "pop", "popitem", "setdefault", "values", "numpy"} | MAYBE_VIEWS
"""Functions, and methods, whose results are parts or views of what they are given."""
_DEPTH = 4


@dataclass
class Writes:
    """``tensors``: parameters whose tensor, or a view of it, is written into in place. ``containers``: those whose
    list, dictionary or set is changed, and ``extended`` those that only `+=` and the like change, so that a caller who
    takes the result has it. ``state``: what outlives the call, as its text names it."""

    tensors: set[str] = field(default_factory=set)
    containers: set[str] = field(default_factory=set)
    extended: set[str] = field(default_factory=set)
    state: set[str] = field(default_factory=set)


def writes_of(function: Any, depth: int = _DEPTH) -> Writes:
    """What a function changes, with the functions of the user's that it hands its arguments on to."""
    function = inspect.unwrap(unwrapped(function)) if callable(function) else function
    code = getattr(function, "__code__", None)
    tree = function_tree(code) if code is not None else None
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return Writes()
    return _Reader(function, tree, depth).writes


class _Reader:
    """Goes through a function from top to bottom, and knows which names stand for which parameters by then."""

    def __init__(self, function: FunctionType, tree: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> None:
        self.writes = Writes()
        self.function, self.depth = function, depth
        given = tree.args
        all_of_them = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        self.names = {each.arg: {each.arg} for each in all_of_them if each is not None}
        self.declared: set[str] = set()
        self.block(tree.body)

    def of(self, node: ast.AST | None) -> set[str]:
        """The parameters that an expression may be, or be a part or view of."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, set())
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.NamedExpr | ast.Await):
            return self.of(node.value)
        if isinstance(node, ast.Call):  # `x.view(-1)`, `options.get("a")`, `zip(xs, ys)`
            if isinstance(node.func, ast.Name):
                return set().union(*map(self.of, node.args)) if node.func.id in _PARTS else set()
            of_parts = isinstance(node.func, ast.Attribute) and node.func.attr in _PARTS_OF
            return self.of(node.func) if of_parts else set()
        if isinstance(node, ast.IfExp):
            return self.of(node.body) | self.of(node.orelse)
        if isinstance(node, ast.BoolOp | ast.Tuple | ast.List):
            return set().union(*map(self.of, node.values if isinstance(node, ast.BoolOp) else node.elts))
        return set()

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Global | ast.Nonlocal):
            self.declared.update(node.names)
            return
        blocks = [each for each in _blocks(node) if each]
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr | ast.withitem | ast.keyword):
                self.expression(part)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self.target(target, node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.changed(target, node)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.bind(node.target, self.of(node.iter))
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, self.of(item.context_expr))
        before = {name: set(each) for name, each in self.names.items()}
        for block in blocks * (1 + isinstance(node, ast.For | ast.AsyncFor | ast.While)):
            self.block(block)
        if blocks and not isinstance(node, ast.With | ast.AsyncWith):
            for name, each in before.items():
                self.names[name] = self.names.get(name, set()) | each

    def expression(self, node: ast.AST) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.NamedExpr):
                self.bind(each.target, self.of(each.value))
            elif isinstance(each, ast.comprehension):
                self.bind(each.target, self.of(each.iter))
            elif isinstance(each, ast.Call):
                self.call(each)

    def target(self, target: ast.expr, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self.target(each, node)
        elif isinstance(target, ast.Starred):
            self.target(target.value, node)
        elif isinstance(target, ast.Name):
            if isinstance(node, ast.AugAssign):
                self.writes.tensors |= self.of(target)
                self.writes.extended |= self.of(target)
            else:
                self.bind(target, self.of(node.value))
            if target.id in self.declared:
                self.writes.state.add(target.id)
        else:
            self.changed(target, node)

    def changed(self, target: ast.expr, node: ast.stmt) -> None:
        """Something of a value is set or deleted."""
        value = getattr(target, "value", None)
        if isinstance(target, ast.Subscript):
            self.writes.tensors |= self.of(value)
            self.writes.containers |= self.of(value)
        if isinstance(target, ast.Attribute | ast.Subscript) and not self.of(value):
            root: ast.AST | None = value
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id in self.function.__globals__ and root.id not in self.names:
                self.writes.state.add(ast.unparse(target))

    def bind(self, target: ast.AST, values: set[str]) -> None:
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                self.names[each.id] = set(values)

    def call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            of = self.of(called.value)
            if called.attr.endswith("_") and not called.attr.endswith("__"):
                self.writes.tensors |= of
            elif called.attr in CHANGING:
                self.writes.containers |= of
                if isinstance(called.value, ast.Name) and not of and called.value.id not in self.names:
                    held = self.function.__globals__.get(called.value.id)
                    if isinstance(held, list | dict | set):
                        self.writes.state.add(called.value.id)
        for each in node.keywords:
            if each.arg == "out":
                self.writes.tensors |= self.of(each.value)
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if name in _OF_LISTS and node.args:
            self.writes.containers |= self.of(node.args[0])
        self.handed_on(node)

    def handed_on(self, node: ast.Call) -> None:
        """What a function of the user's does with what it is given."""
        other = named(self.function, node.func) if isinstance(node.func, ast.Name) else None
        if not isinstance(other, FunctionType) or is_installed(other.__code__.co_filename) or not self.depth:
            return
        inner = writes_of(other, self.depth - 1)
        for parameter, value in _bound(other, node):
            of = self.of(value)
            for own, theirs in (
                (self.writes.tensors, inner.tensors),
                (self.writes.containers, inner.containers | inner.extended),
            ):
                if parameter in theirs:
                    own |= of
        self.writes.state |= inner.state


def _bound(function: Callable[..., Any], node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return
    yield from zip(names, (each for each in node.args if not isinstance(each, ast.Starred)), strict=False)
    yield from ((each.arg, each.value) for each in node.keywords if each.arg is not None)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    found = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    found += [each.body for each in getattr(node, "handlers", ())]
    return found + [each.body for each in getattr(node, "cases", ())]
