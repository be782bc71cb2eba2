"""Of which of its arguments the text of a Python function shows that it only reads them, and that it reads nothing else
that could change. Where the text does not show it, there is a doubt: enough to ask, not enough to say that it is so."""

from __future__ import annotations

import ast
import inspect
import logging
import re
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from fxlib.diagnosis.engine.frames import named
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.trees import function_tree, text_of
from fxlib.ir.objects import attributes_of, home_of, is_a

__all__ = ["doubts"]

_READING = (
    abs, all, any, bool, complex, dict, divmod, enumerate, float, int, isinstance, len, list, max, min, pow, print,
    range, repr, reversed, round, set, sorted, str, sum, tuple, zip,
)  # fmt: skip
_OF_CONTAINERS = {"copy", "count", "get", "index", "items", "keys", "values"}
# Functions of torch and NumPy that write into their arguments, whatever they are called.
_WRITING = re.compile(r"_$|^_foreach|batch_norm|instance_norm|embedding|^(copyto|put|place|putmask|fill|apply|map)|__i")
_WRITING_BY = {"out", "inplace", "training", "max_norm"}
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, tuple, frozenset, range, type, list, dict, set, ModuleType,
    torch.Tensor, torch.dtype, torch.device, logging.Logger,
)  # fmt: skip
_COMPUTING = frozenset({"torch", "numpy", "math"})
_LIBRARIES = _COMPUTING | {"builtins", "random", "einops", "operator"}
_DEPTH = 4


def doubts(function: FunctionType, parameters: set[str]) -> Iterator[str]:
    """Which of these parameters a function may change, and what it uses that may have state, as sentences."""
    name = function.__name__
    reader = _reader(function, _DEPTH)
    if reader is None:
        yield f"nobody can read `{name}`"
        return
    for parameter in sorted(parameters):
        if (use := reader.other_use(parameter)) is not None:
            yield f"`{name}` may change its `{parameter}`: `{text_of(use)[:60]}`"
    if (held := reader.state()) is not None:
        yield f"`{name}` uses `{held}`, which may be another one in the next call"


def _reader(function: FunctionType, depth: int) -> _Reader | None:
    tree = function_tree(function.__code__)
    return _Reader(function, tree, depth) if tree is not None and depth else None


class _Reader:
    def __init__(self, function: FunctionType, tree: Any, depth: int) -> None:
        self.function, self.tree, self.depth = function, tree, depth
        self.nodes: list[Any] = [each for statement in tree.body for each in ast.walk(statement)]
        self.bound = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
        self.bound |= {each.id for each in self.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}

    def outside(self, node: ast.expr) -> Any:
        """What a name or dotted name is outside of the function; None for one of its own."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return None if getattr(root, "id", None) in self.bound else named(self.function, node)

    def other(self, function: Any) -> _Reader | None:
        """The reader of another function of the user's; None if it is none, or cannot be read."""
        if not isinstance(function, FunctionType) or is_installed(function.__code__.co_filename):
            return None
        return _reader(function, self.depth - 1)

    # --- arguments ----------------------------------------------------------------------------------------------------

    def other_use(self, parameter: str) -> ast.AST | None:
        """Where a parameter, or what was taken from it under any name, is used otherwise than read."""
        names, todo = {parameter}, [parameter]
        while todo:
            name = todo.pop()
            for node in self.nodes:
                if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                    more = self.read(node)
                    if more is None:
                        return getattr(node, "parent", node)
                    new = more - names
                    names |= new
                    todo += new
                elif isinstance(node, ast.AugAssign) and getattr(node.target, "id", None) == name:
                    return node
        return None

    def read(self, node: Any) -> set[str] | None:
        """The names that a value gets where it stands; None if it may be changed there."""
        parent = getattr(node, "parent", None)
        if isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare | ast.FormattedValue | ast.Expr | ast.Return):
            return set()
        if isinstance(parent, ast.If | ast.While | ast.Assert | ast.Slice | ast.Raise):
            return set()
        if isinstance(parent, ast.AugAssign):
            return set() if parent.value is node else None
        if isinstance(parent, ast.Subscript):
            if parent.value is not node:
                return set()
            return self.read(parent) if isinstance(parent.ctx, ast.Load) else None
        if isinstance(parent, ast.Attribute):
            call = getattr(parent, "parent", None)
            if isinstance(call, ast.Call) and call.func is parent:
                return self.method(parent.attr, call)
            return self.read(parent) if isinstance(parent.ctx, ast.Load) else None
        if isinstance(parent, ast.IfExp):
            return set() if parent.test is node else self.read(parent)
        if isinstance(parent, ast.BoolOp | ast.Starred | ast.Tuple | ast.List | ast.Dict | ast.Set):
            return self.read(parent)
        if isinstance(parent, ast.keyword):
            return self.given(parent.parent, node, parent.arg)  # type: ignore[attr-defined]
        if isinstance(parent, ast.Call):
            return self.given(parent, node, None)
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.comprehension):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return _names(targets)
        return None

    def method(self, name: str, call: ast.Call) -> set[str] | None:
        if name in _OF_CONTAINERS or (hasattr(torch.Tensor, name) and not _WRITING.search(name)):
            return self.read(call)
        return None

    def given(self, call: ast.Call, node: ast.expr, keyword: str | None) -> set[str] | None:
        """A function gets the value."""
        called = self.outside(call.func)
        if any(called is each for each in _READING):
            return self.read(call)  # `list(ws)` has the same tensors in it
        if isinstance(called, FunctionType) and not is_installed(called.__code__.co_filename):
            parameter = _parameter(called, call, node, keyword)
            other = self.other(called)
            return set() if other is not None and parameter and other.other_use(parameter) is None else None
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        writing = _WRITING.search(name) or any(each.arg in _WRITING_BY or each.arg is None for each in call.keywords)
        flags = any(isinstance(each, ast.Constant) and each.value is True for each in call.args)
        return set() if callable(called) and _is_of(_COMPUTING, called) and not writing and not flags else None

    # --- state --------------------------------------------------------------------------------------------------------

    def state(self) -> str | None:
        """A global object with state of its own that the function does more with than reading a plain attribute."""
        for node in self.nodes:
            if isinstance(node, ast.Nonlocal):
                return node.names[0]
            if not isinstance(node, ast.Name) or node.id in self.bound or not isinstance(node.ctx, ast.Load):
                continue
            value, parent = self.outside(node), getattr(node, "parent", None)
            if isinstance(value, FunctionType):
                called = isinstance(parent, ast.Call) and parent.func is node
                other = self.other(value) if called else None
                if other is not None and other.state() is not None:
                    return node.id
                continue
            if isinstance(parent, ast.Attribute):
                if _is_of_users(value) and _is_called(parent) and not issubclass(value, torch.autograd.Function):
                    return ast.unparse(parent)
                if parent.attr in (attributes_of(value) or ()) and isinstance(parent.ctx, ast.Load):
                    continue
            if node.id in ("globals", "setattr", "delattr", "vars"):
                return node.id
            library = callable(value) and not is_a(value, torch.nn.Module) and _is_of(_LIBRARIES, value)
            if not library and not is_a(value, _PLAIN):
                return node.id
        return None


def _is_of(packages: frozenset[str], value: object) -> bool:
    return home_of(value).partition(".")[0] in packages


def _is_of_users(value: Any) -> bool:
    """Whether it is a class of the user's."""
    return isinstance(value, type) and not is_installed(
        getattr(sys.modules.get(home_of(value)), "__file__", None) or ""
    )


def _is_called(node: Any) -> bool:
    return isinstance(node.parent, ast.Call) and node.parent.func is node


def _parameter(function: FunctionType, call: ast.Call, node: ast.expr, keyword: str | None) -> str | None:
    """The parameter that an argument of a call is given to; None if that cannot be read."""
    parameters = list(inspect.signature(function).parameters)
    if keyword is not None:
        return keyword if keyword in parameters else None
    if node not in call.args or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    return dict(enumerate(parameters)).get(call.args.index(node))


def _names(targets: list[ast.expr]) -> set[str] | None:
    """The names among targets; None if something is stored elsewhere."""
    found: set[str] = set()
    todo = [*targets]
    while todo:
        target = todo.pop()
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            todo += target.elts
        elif isinstance(target, ast.Starred):
            todo.append(target.value)
        else:
            return None
    return found
