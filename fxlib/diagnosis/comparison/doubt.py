"""Whether comparing a model could find anything: not if its code only calls layers and torch on its inputs.

Any code that is not known to be harmless is a reason to run. Code that rules cover completely, such as `x is None` and
`self.training`, is not.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.engine import reach, trees
from fxlib.ir.modules import is_altered
from fxlib.ir.objects import attribute, home_of, is_a

__all__ = ["doubtful"]

_MOST = 290  # functions; slightly below the limit of `reachable`
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type(...))
_STATEMENTS = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Expr, ast.If, ast.For, ast.While, ast.Pass, ast.Break,
    ast.Continue, ast.Assert, ast.Raise, ast.Assign, ast.AnnAssign, ast.AugAssign,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp,
    ast.Subscript, ast.Slice, ast.Starred, ast.Call, ast.keyword, ast.Attribute, ast.ListComp, ast.GeneratorExp,
    ast.DictComp, ast.comprehension,
)  # fmt: skip
_BUILTINS = frozenset(
    {
        "range", "enumerate", "zip", "len", "int", "float", "bool", "list", "tuple", "dict", "reversed", "sum", "min",
        "max", "abs", "slice", "print", "round", "ValueError", "RuntimeError", "TypeError", "NotImplementedError",
        "AssertionError", "NotImplemented",
    }
)  # fmt: skip
_MUTATORS = frozenset({"append", "extend", "insert", "update", "setdefault", "pop", "popitem", "clear", "remove"})
_OF_CONTAINERS = _MUTATORS | {"items", "keys", "values", "get", "index", "count", "format", "join"}
_READ_OUT = frozenset(
    {
        "item", "tolist", "numpy", "data", "grad", "grad_fn", "backward", "apply", "requires_grad", "requires_grad_",
        "set_", "detach_", "register_hook", "retain_grad", "storage", "untyped_storage", "data_ptr",
    }
)  # fmt: skip
_ASKS = ("is_", "has_", "typename", "get_", "set_", "rand", "manual", "seed", "initial", "use_", "empty")
"""Prefixes of torch functions that read or change global state, or return numbers."""
_OF_MODULES = ("torch.func.", "torch._functorch.", "torch.nn.utils.")
"""Homes of functions that call a module with other weights, or change it, except those for packed sequences."""


def doubtful(root: Any, functions: Iterable[FunctionType], code_of: Any) -> bool:
    """Whether the graph of ``root`` could differ for a reason that no rule covers.

    ``functions`` are those that a trace may run; ``code_of`` returns the original code of one."""
    functions = list(functions)
    if not isinstance(root, nn.Module) or len(functions) > _MOST:
        return True
    found = _Code(root, functions)
    return found.altered or any(found.doubts(function, code_of(function)) for function in functions)


class _Code:
    """The code of a model, and the values of its names."""

    def __init__(self, root: nn.Module, functions: list[FunctionType]) -> None:
        self.modules = [module for _, module, _ in reach.modules_of(root)]
        self.altered = any(map(is_altered, self.modules))
        self.functions = set(functions)
        self._kinds = {type(each) for each in self.modules}
        self._held = {name for each in self.modules for name in _held(each)}
        self._names: dict[str, bool] = {}

    def doubts(self, function: FunctionType, code: CodeType) -> bool:
        """Whether a function contains anything not known to be harmless."""
        tree = trees.function_tree(code)
        if tree is None or function.__closure__ or tree.decorator_list:
            return True
        scope = _Scope(self, function, code)
        return not all(map(scope.harmless, _evaluated(tree)))

    def attribute(self, name: str) -> bool:
        """Whether reading an attribute of this name is harmless on every module that has it."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = all(self._of_module(module, name) for module in self.modules)
        return known

    def is_of_module(self, name: str) -> bool:
        return name in self._held or any(hasattr(kind, name) for kind in self._kinds)

    def _of_module(self, module: nn.Module, name: str) -> bool:
        if name in module._modules or name in module._parameters or name == "training":
            return True
        if name in module._buffers:
            return False
        if name in vars(module):
            return _is_plain(vars(module)[name])
        value = attribute(type(module), name)
        if isinstance(value, property):
            value = value.fget
        return value is None or name == "forward" or value in self.functions if _hashable(value) else False


class _Scope:
    """One function and its names."""

    def __init__(self, code: _Code, function: FunctionType, own: CodeType) -> None:
        self._code = code
        self._globals = function.__globals__
        self._locals = {*own.co_varnames, *own.co_cellvars}
        for inner in own.co_consts:
            if isinstance(inner, CodeType):  # comprehensions
                self._locals.update(inner.co_varnames)

    def harmless(self, node: Any) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._locals or _asks_of_module(node) or self._of_global(node.id)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.comprehension):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return all(map(_is_local, targets))
        if isinstance(node, ast.Compare):
            return all(map(_is_ordinary, node.ops, node.comparators))
        if isinstance(node, ast.FunctionDef):
            return node.parent is None  # type: ignore[attr-defined]
        return isinstance(node, _STATEMENTS + _EXPRESSIONS)

    def _of_global(self, name: str) -> bool:
        if name not in self._globals:
            return name in _BUILTINS and hasattr(builtins, name)
        return self._is_known(self._globals[name], name)

    def _is_known(self, value: Any, name: str) -> bool:
        if is_a(value, ModuleType):
            return value is math or value.__name__.partition(".")[0] == "torch"
        if is_a(value, FunctionType) and value in self._code.functions:
            return True
        home = home_of(value)
        if f"{home}.".startswith(_OF_MODULES) and home != "torch.nn.utils.rnn":
            return False
        home = home.partition(".")[0]
        if is_a(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            return True
        if is_a(value, type) or not (callable(value) and home in ("torch", "math")):
            return _is_plain(value) and not isinstance(value, list | dict)
        return not name.startswith(_ASKS) and not name.endswith("_")

    def _of_attribute(self, node: ast.Attribute) -> bool:
        name = node.attr
        value = self._resolved(node.value)
        if isinstance(value, ModuleType):
            found = getattr(value, name, None)
            return found is not None and self._is_known(found, name)
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if name in _OF_CONTAINERS and not own:
            return name not in _MUTATORS or isinstance(node.value, ast.Name)
        if self._code.is_of_module(name):
            return self._code.attribute(name)
        return own or (name in _methods() and name not in _READ_OUT)

    def _resolved(self, node: Any) -> Any:
        """The Python module that an expression names."""
        if isinstance(node, ast.Name) and node.id not in self._locals:
            return self._globals.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._resolved(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType) else None
        return None


def _evaluated(tree: Any) -> Iterator[Any]:
    """The expressions and statements of a function, without annotations, defaults, and arguments of raised errors."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise):
            continue
        if isinstance(node, ast.Assert):
            todo.append(node.test)
            continue
        if isinstance(node, ast.AST) and isinstance(node, ast.stmt | ast.expr | ast.comprehension | ast.keyword):
            yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "args") and not isinstance(value, list):
                continue
            if name in ("decorator_list", "type_params", "format_spec"):
                continue
            todo += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def _is_local(target: Any) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_local, target.elts))
    if isinstance(target, ast.Starred):
        return _is_local(target.value)
    return isinstance(target, ast.Name)


def _asks_of_module(node: Any) -> bool:
    """Whether a name belongs to a type test of the module itself or of its untraced attributes."""
    call, test = node.parent, node.id
    if test not in ("hasattr", "isinstance") or not isinstance(call, ast.Call) or call.func is not node:
        return False
    asked: Any = call.args[0] if call.args else None
    of_attribute = isinstance(asked, ast.Attribute) and test == "isinstance"
    return getattr(asked.value if of_attribute else asked, "id", "") == "self"


def _is_ordinary(operator: Any, other: Any) -> bool:
    """Whether a comparison of traced values raises, or is one with None, which a rule covers."""
    if isinstance(operator, ast.Is | ast.IsNot):
        return isinstance(other, ast.Constant) and other.value is None
    return not isinstance(operator, ast.In | ast.NotIn)


def _is_plain(value: Any, depth: int = 3) -> bool:
    if is_a(value, (*_PLAIN, nn.Module)):
        return True
    if type(value) in (tuple, list) and depth:
        return all(_is_plain(each, depth - 1) for each in value)
    return type(value) is dict and depth > 0 and all(_is_plain(each, depth - 1) for each in value.values())


def _held(module: nn.Module) -> Iterator[str]:
    for table in (vars(module), module._modules, module._parameters, module._buffers):
        yield from table.keys()  # TorchScript's tables cannot be iterated


def _hashable(value: Any) -> bool:
    return getattr(type(value), "__hash__", None) is not None


@functools.cache
def _methods() -> frozenset[str]:
    return frozenset(dir(torch.Tensor))
