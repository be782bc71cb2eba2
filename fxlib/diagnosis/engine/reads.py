"""Of which of its arguments the text of a Python function shows that it only reads them, and that it reads nothing else
that could change. Where the text does not show it, there is a doubt: enough to ask, not enough to say that it is so."""

from __future__ import annotations

import ast
import builtins
import inspect
import logging
import re
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from fxlib.capture.wrapping import unwrapped
from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.engine.trees import function_tree

__all__ = ["doubts"]

_READING = {
    "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "int", "isinstance", "len", "list",
    "max", "min", "pow", "print", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
}  # fmt: skip
_OF_CONTAINERS = {"copy", "count", "get", "index", "items", "keys", "values"}
# Functions of torch and NumPy that write into their arguments, whatever they are called.
_WRITING = re.compile(r"_$|^_foreach|batch_norm|instance_norm|embedding|^(copyto|put|place|putmask|fill|apply|map)|__i")
_WRITING_BY = {"out", "inplace", "training", "max_norm"}
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    tuple,
    frozenset,
    range,
    type,
    torch.dtype,
    torch.device,
    logging.Logger,
)
_DEPTH = 4


def doubts(function: FunctionType, parameters: set[str], depth: int = _DEPTH) -> Iterator[str]:
    """Which of these parameters a function may change, and what it uses that may have state, as sentences."""
    tree = function_tree(function.__code__)
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef) or not depth:
        yield f"nobody can read `{function.__name__}`"
        return
    reader = _Reader(function, tree, depth)
    for parameter in sorted(parameters):
        if (use := reader.other_use(parameter)) is not None:
            yield f"`{function.__name__}` may change its `{parameter}`: `{' '.join(ast.unparse(use).split())[:60]}`"
    if (held := reader.state()) is not None:
        yield f"`{function.__name__}` uses `{held}`, which may be another one in the next call"


class _Reader:
    def __init__(self, function: FunctionType, tree: Any, depth: int) -> None:
        self.function, self.tree, self.depth = function, tree, depth
        self.nodes: list[Any] = [each for statement in tree.body for each in ast.walk(statement)]
        self.bound = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
        self.bound |= {each.id for each in self.nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}

    def value(self, name: str) -> Any:
        """What a name of the file, or of Python, is."""
        found = self.function.__globals__.get(name, getattr(builtins, name, None))
        return unwrapped(found) if callable(found) else found

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
        name, called = self.called(call)
        if isinstance(call.func, ast.Name) and name in _READING and name not in self.bound:
            return self.read(call)  # `list(ws)` has the same tensors in it
        if isinstance(called, FunctionType) and not is_installed(called.__code__.co_filename):
            if keyword is None and any(isinstance(each, ast.Starred) for each in call.args):
                return None
            parameters = list(inspect.signature(called).parameters)
            place = call.args.index(node) if keyword is None and node in call.args else -1
            own = keyword if keyword is not None else parameters[place] if 0 <= place < len(parameters) else None
            return set() if own in parameters and not any(doubts(called, {str(own)}, self.depth - 1)) else None
        writing = _WRITING.search(name) or any(each.arg in _WRITING_BY or each.arg is None for each in call.keywords)
        flags = any(isinstance(each, ast.Constant) and each.value is True for each in call.args)
        return set() if self.is_of_module(call.func) and not writing and not flags else None

    def called(self, call: ast.Call) -> tuple[str, Any]:
        if isinstance(call.func, ast.Name):
            return call.func.id, None if call.func.id in self.bound else self.value(call.func.id)
        return getattr(call.func, "attr", ""), None

    def is_of_module(self, node: ast.expr) -> bool:
        """Whether it is `torch.stack`, `F.relu` or `np.sum`: a function of an installed package's module."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.bound:
            return False
        value = self.value(node.id)
        for part in reversed(parts[1:]):
            value = getattr(value, part, None)
        if parts:
            return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in ("torch", "numpy", "math")
        return (getattr(value, "__module__", None) or "").partition(".")[0] in ("torch", "numpy", "math")

    # --- state --------------------------------------------------------------------------------------------------------

    def state(self) -> str | None:
        """A global object with state of its own that the function does more with than reading a plain attribute."""
        for node in self.nodes:
            if isinstance(node, ast.Nonlocal):
                return node.names[0]
            if not isinstance(node, ast.Name) or node.id in self.bound or not isinstance(node.ctx, ast.Load):
                continue
            value, parent = self.value(node.id), getattr(node, "parent", None)
            if isinstance(value, FunctionType):
                called = isinstance(parent, ast.Call) and parent.func is node
                own = called and not is_installed(value.__code__.co_filename)
                if own and any(" uses " in each for each in doubts(value, set(), self.depth - 1)):
                    return node.id
                continue
            if isinstance(parent, ast.Attribute):
                if _is_of_users(value) and _is_called(parent) and not issubclass(value, torch.autograd.Function):
                    return ast.unparse(parent)
                if parent.attr in getattr(value, "__dict__", {}) and isinstance(parent.ctx, ast.Load):
                    continue
            if node.id in ("globals", "setattr", "delattr", "vars"):
                return node.id
            if not isinstance(value, (*_PLAIN, ModuleType, torch.Tensor, list, dict, set)) and not _is_library(value):
                return node.id
        return None


def _is_of_users(value: Any) -> bool:
    """Whether it is a class of the user's."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return isinstance(value, type) and not is_installed(getattr(module, "__file__", None) or "")


def _is_called(node: Any) -> bool:
    return isinstance(node.parent, ast.Call) and node.parent.func is node


def _is_library(value: Any) -> bool:
    """Whether it is a function of a package, or of Python."""
    module = getattr(value, "__module__", None) or ""
    return (
        callable(value)
        and not isinstance(value, torch.nn.Module)
        and (module.partition(".")[0] in ("torch", "numpy", "math", "builtins", "random", "einops", "operator"))
    )


def _names(targets: list[ast.expr]) -> set[str] | None:
    """The names among targets; None if something is stored elsewhere."""
    found: set[str] = set()
    for target in targets:
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Starred):
            inner = _names([target.value])
            if inner is None:
                return None
            found |= inner
        elif isinstance(target, ast.Tuple | ast.List):
            inner = _names(target.elts)
            if inner is None:
                return None
            found |= inner
        else:
            return None
    return found
