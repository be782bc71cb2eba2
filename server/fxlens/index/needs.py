"""What a class or a function reads of a configuration, also through those that it hands the configuration on to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from .machine import Workspace
from .render import init_of
from .symbols import Symbol

Needs = dict[str, Any]
"""Attributes, and what is read of each in turn."""
_OF_TABLES = ("get", "items", "keys", "values", "copy", "__dict__", "pop")
_FURTHER = 2  # calls in a row that hand it on


def of_class(workspace: Workspace, kind: Symbol, parameter: str, further: int = _FURTHER) -> Needs:
    """What the methods of a class read of a parameter of ``__init__``, also where it is kept as ``self.parameter``."""
    found: Needs = {}
    node = workspace.node(kind.file, kind.name)
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = method.name == "__init__"
        roots = dict.fromkeys((f"self.{parameter}", *([parameter] if first else [])), found)
        _read(workspace, kind, method, roots, further if first else 0)
    return found


def of_function(workspace: Workspace, function: Symbol, parameter: str, further: int = _FURTHER) -> Needs:
    """What a function reads of a parameter."""
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
    """What a class or function of the workspace that is called reads of what it is given."""
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
    """What is read of what a path leads to."""
    at = roots[path[0]]
    for name in path[1:]:
        at = at.setdefault(name, {})
    return at


def _path(node: ast.AST, roots: Iterable[str]) -> list[str] | None:
    """``args.model.dim`` and ``cfg["dim"]`` as one of the roots and names below it."""
    names: list[str] = []
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Name)) and (root := ast.unparse(node)) in roots:
            return [root, *(name for name in reversed(names) if name not in _OF_TABLES)]
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript) and isinstance(key := getattr(node.slice, "value", None), str):
            names.append(key)
            node = node.value
        else:
            return None


def names(needed: Needs) -> Iterator[str]:
    """All names that are read, also of tables within."""
    for name, inner in needed.items():
        yield name
        yield from names(inner)
