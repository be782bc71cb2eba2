"""The names that a class or function reads from a configuration, also through its callees."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from typing import Any

from .machine import Workspace
from .render import init_of
from .symbols import Symbol

Needs = dict[str, Any]
"""Attributes, with the nested reads of each."""
_OF_TABLES = ("get", "items", "keys", "values", "copy", "__dict__", "pop")
_FURTHER = 2  # nested calls that pass it on


def of_class(workspace: Workspace, kind: Symbol, parameter: str, further: int = _FURTHER) -> Needs:
    """The names that methods of a class and its bases read from a parameter of ``__init__``, also from the attribute
    that stores it."""
    found: Needs = {}
    levels = list(_constructors(workspace, kind, parameter))
    kept = {f"self.{parameter}", *(name for _, init, given in levels for name in _kept(init, given))}
    shared = dict.fromkeys(kept, found)
    for home, init, given in levels:
        _read(workspace, home, init, {**shared, given: found}, further)
    for each in workspace.symbols.mro(kind):
        node = workspace.node(each.file, each.name) if each.kind == "class" else None
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name != "__init__":
                _read(workspace, each, method, dict(shared), max(further - 1, 0))
    return found


def _constructors(
    workspace: Workspace, kind: Symbol, parameter: str
) -> Iterator[tuple[Symbol, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """The ``__init__`` of a class, and of bases that receive the parameter, with its name in each."""
    above = [each for each in workspace.symbols.mro(kind) if each.kind == "class"]
    for home in above:
        init = workspace.node(home.file, f"{home.name}.__init__")
        if not isinstance(init, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if all(each.arg != parameter for each in ast.walk(init.args) if isinstance(each, ast.arg)):
            return
        yield home, init, parameter
        following = above[above.index(home) + 1 :]
        given = next(filter(None, (_above(workspace, part, parameter, following) for part in ast.walk(init))), None)
        if given is None:
            return
        parameter = given


def _above(workspace: Workspace, call: ast.AST, parameter: str, above: list[Symbol]) -> str | None:
    """The base parameter that receives it by ``super().__init__(config)``."""
    if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != "__init__" or not above:
        return None
    named = next((each.arg for each in call.keywords if _is_name(each.value, parameter)), None)
    at = next((at for at, each in enumerate(call.args) if _is_name(each, parameter)), None)
    if at is None or not isinstance(call.func, ast.Attribute):
        return named
    at -= not isinstance(call.func.value, ast.Call)  # `Base.__init__(self, config)`
    for each in above:
        names = [name.rstrip("=") for name in workspace.symbols.classes(each.file)[each.name].init if name[:1] != "*"]
        if names:
            return names[at] if at < len(names) else None
    return None


def _kept(init: ast.AST, parameter: str) -> Iterator[str]:
    """The attributes that store the parameter: ``self.hparams`` after ``self.save_hyperparameters(config)``."""
    for part in ast.walk(init):
        if isinstance(part, ast.Assign) and _is_name(part.value, parameter):
            yield from (ast.unparse(each) for each in part.targets if isinstance(each, ast.Attribute))
        elif isinstance(part, ast.Call) and ast.unparse(part.func) == "self.save_hyperparameters":
            if not part.args and not part.keywords:
                yield f"self.hparams.{parameter}"
            elif any(_is_name(each, parameter) for each in part.args):
                yield "self.hparams"


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def of_function(workspace: Workspace, function: Symbol, parameter: str, further: int = _FURTHER) -> Needs:
    """The names that a function reads from a parameter."""
    found: Needs = {}
    node = workspace.node(function.file, function.name)
    if node is not None:
        _read(workspace, function, node, {parameter: found}, further)
    return found


def _read(workspace: Workspace, home: Symbol, node: ast.AST, roots: dict[str, Needs], further: int) -> None:
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and (path := _path(part.value, roots)) is not None:  # `extra = cfg.MODEL.EXTRA`
            roots.update({ast.unparse(each): _below(path, roots) for each in part.targets})
    for part in ast.walk(node):
        path = _path(part, roots)
        if path is not None:
            _below(path, roots)
        if isinstance(part, ast.Call) and further:
            _hand_on(workspace, home, part, roots, further - 1)


def _hand_on(workspace: Workspace, home: Symbol, call: ast.Call, roots: dict[str, Needs], further: int) -> None:
    """The names that a called class or function of the workspace reads from an argument."""
    given = [(at, path) for at, each in enumerate(call.args) if (path := _path(each, roots)) is not None]
    named = [(each.arg, path) for each in call.keywords if each.arg and (path := _path(each.value, roots)) is not None]
    symbol = workspace.symbols.resolve(home.file, ast.unparse(call.func), home.name) if given or named else None
    if symbol is None or symbol.kind not in ("class", "function") or symbol == home:
        return
    parameters = _parameters(workspace, symbol)
    pairs = [(parameters[at], path) for at, path in given if at < len(parameters)] + named
    for parameter, path in pairs:
        of = of_class if symbol.kind == "class" else of_function
        _merge(_below(path, roots), of(workspace, symbol, parameter, further))


def _parameters(workspace: Workspace, symbol: Symbol) -> list[str]:
    if symbol.kind == "class":
        return [each.rstrip("=") for each in init_of(workspace.symbols, symbol) if each[:1] != "*"]
    node = workspace.node(symbol.file, symbol.name)
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args)] if node is not None else []


def _merge(into: Needs, more: Needs) -> None:
    for name, inner in more.items():
        _merge(into.setdefault(name, {}), inner)


def _below(path: list[str], roots: dict[str, Needs]) -> Needs:
    """The reads below a path."""
    at = roots[path[0]]
    for name in path[1:]:
        at = at.setdefault(name, {})
    return at


def _path(node: ast.AST, roots: Container[str]) -> list[str] | None:
    """``args.model.dim`` and ``cfg["dim"]`` as one of the roots, the longest, and names below it."""
    names: list[str] = []
    keys = 0  # the number of names up to the last one that is a key
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(key := getattr(node.slice, "value", None), str):
            names.append(key)
            keys = len(names)
        else:
            return None
        node = node.value
    names = [node.id, *reversed(names)]
    for end in range(len(names) - keys, 0, -1):
        if (root := ".".join(names[:end])) in roots:
            return [root, *(name for name in names[end:] if name not in _OF_TABLES)]
    return None


def names(needed: Needs) -> Iterator[str]:
    """All names that are read, also from nested tables."""
    for name, inner in needed.items():
        yield name
        yield from names(inner)
