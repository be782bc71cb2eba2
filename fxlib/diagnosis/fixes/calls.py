"""What a call in the user's code may do besides computing, by its text."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec

import torch

from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.fixes.imports import Bindings
from fxlib.diagnosis.fixes.source import FunctionNode, Source
from fxlib.diagnosis.fixes.torch_names import MAKERS

__all__ = ["is_pure", "looking"]

_COMPUTING = {
    "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "hasattr", "int", "isinstance",
    "len", "list", "max", "min", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum",
    "tuple", "zip",
}  # fmt: skip
_PYTHON = _COMPUTING | {"getattr", "print"}
_CONTAINERS = (torch.Tensor, torch.Size, list, dict, set, str)
_LOOKING = {"absl", "inspect", "logging", "loguru", "sys", "traceback", "warnings"}
_DRAWS = re.compile(
    r"rand|drop|normal|seed|uniform|bernoulli|poisson|multinomial|gumbel|rrelu|fractional|exponential|geometric|cauchy|"
    r"attention"
)
# They write into their arguments, or call what they are given.
_WRITES = re.compile(
    r"batch_norm|instance_norm|embedding|hook|backward|grad|apply|map|numpy\.(copyto|put|place|fill|save)"
)
_FUNCTIONS = {"torch.nn.functional", "torch.linalg", "torch.special", "torch.fft", "math", "numpy"}


def looking(source: Source, nodes: Iterable[ast.AST], seen: frozenset[str] = frozenset()) -> str | None:
    """What code calls that may look at the function that calls it. Functions of the same file are looked into."""
    nodes = list(nodes)
    raised = {node.exc for node in nodes if isinstance(node, ast.Raise)}
    for call in (node for node in nodes if isinstance(node, ast.Call) and node not in raised):
        called = call.func
        while any(isinstance(each, ast.Call) for each in _chain(called)):  # what a package's function gives is its own
            called = next(each.func for each in _chain(called) if isinstance(each, ast.Call))
        name, imported = _name(source, called)
        if not imported:
            name, called = ast.unparse(call.func), call.func
        of_file = [each for each in source.tree.body if isinstance(each, FunctionNode) and each.name == name]
        if len(of_file) == 1 and isinstance(called, ast.Name):
            new, seen = name not in seen, seen | {name}
            marks = (each.func if isinstance(each, ast.Call) else each for each in of_file[0].decorator_list)
            if not all(imported and _is_of_package(mark) for mark, imported in (_name(source, each) for each in marks)):
                return name
            if new and (found := looking(source, ast.walk(of_file[0]), seen)) is not None:
                return found
        elif not (_is_of_package(name) if imported else _is_own(source, called, name)):
            return ast.unparse(call.func)
    return None


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    """What an attribute is read of, from the outside in."""
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value
    yield node


def _name(source: Source, called: ast.expr) -> tuple[str, bool]:
    """The dotted name of what is called, and whether it is imported."""
    bindings, (*_, root) = Bindings.of(source), _chain(called)
    imported = isinstance(root, ast.Name) and root.id in bindings.names.values()
    return (bindings.resolve(called) if imported else None) or ast.unparse(called), imported


def _is_own(source: Source, called: ast.expr, name: str) -> bool:
    """Whether it is a function of Python's, or a method that tensors or containers have."""
    if isinstance(called, ast.Name):
        return name in _PYTHON and name not in source.defined and hasattr(builtins, name)
    of_values = isinstance(called, ast.Attribute) and any(hasattr(each, called.attr) for each in _CONTAINERS)
    return of_values or name.endswith(".apply")


def _is_of_package(name: str) -> bool:
    """Whether a module of Python or of an installed package has it, and not one that shows its callers' names."""
    top = name.partition(".")[0]
    if top in _LOOKING:
        return False
    if top in sys.stdlib_module_names or top == "torch":
        return True
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # of a stand-in for a missing one
        return False
    return spec is not None and is_installed(spec.origin or "")


def is_pure(source: Source, call: ast.Call, is_part: Callable[[ast.AST], bool]) -> bool:
    """Whether a call computes with tensors or numbers, draws nothing, and writes into none: a function of torch, math
    or NumPy, a method of tensors on what is no part of the module, one of Python's own."""
    name, imported = _name(source, call.func)
    package, _, last = name.rpartition(".")
    if name.endswith("_") or _DRAWS.search(last) or _WRITES.search(name):
        return False
    if any(each.arg is None or each.arg in ("out", "inplace") for each in call.keywords):
        return False
    if imported:
        of_torch = package == "torch" and (hasattr(torch.Tensor, last) or bool(MAKERS.match(last)))
        return of_torch or package in _FUNCTIONS
    if isinstance(call.func, ast.Name):
        return name in _COMPUTING and name not in source.defined
    return isinstance(call.func, ast.Attribute) and hasattr(torch.Tensor, last) and not is_part(call.func.value)
