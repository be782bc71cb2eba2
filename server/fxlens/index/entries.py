"""From a class upwards: the scripts, tests and functions that lead to its construction."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from .runs import CONFIGURED, Entry
from .symbols import Symbol
from .workspace import Workspace, distance

_MOST_SCOPES = 400
_MOST_DEPTH = 7
_MOST_CONFIGURATIONS = 4


def mentions(workspace: Workspace, symbol: Symbol) -> Iterator[tuple[str, str]]:
    """Scopes that read a name of this symbol, as pairs of a file and a qualified name."""
    name = symbol.name.rpartition(".")[2]
    others = workspace.named_otherwise(name)
    for path in sorted(workspace.readers(name) | set(others), key=lambda path: (distance(symbol.file, path), path)):
        known = {name, *others.get(path, ())}
        for scope in workspace.facts[path].scopes:
            if any(_means(workspace, path, scope.name, each, as_, symbol) for each in scope.names for as_ in known):
                yield path, scope.name


def _means(workspace: Workspace, path: str, scope: str, dotted: str, name: str, symbol: Symbol) -> bool:
    if name not in dotted:
        return False
    parts = dotted.split(".")
    if name not in parts:
        return False
    length = parts.index(name) + 1
    if workspace.symbols.resolve(path, ".".join(parts[:length]), scope) == symbol:
        return True
    for first, source in workspace.facts[path].also:
        if first == parts[0]:
            found: Symbol | None = workspace.symbols.imported(path, source)
            for part in parts[1:length]:
                found = workspace.symbols.member(found, part) if found else None
            if found == symbol:
                return True
    return False


def entries(workspace: Workspace, kind: Symbol) -> tuple[list[Entry], list[Entry]]:
    """Entry points that lead to a class, the nearest first; and the functions that name it, as a fallback."""
    found: dict[Entry, tuple[int, ...]] = {}
    near: dict[Entry, tuple[int, ...]] = {}
    seen: set[Symbol] = {kind}
    queue: list[tuple[Symbol, int]] = [(kind, 0)]
    scopes = 0
    while (queue or not found) and scopes < _MOST_SCOPES:
        if not queue:  # it is named nowhere
            queue = [(each, 1) for each in _finders(workspace, kind) if each not in seen]
            seen.update(each for each, _ in queue)
            if not queue:
                break
        symbol, depth = queue.pop(0)
        used = False
        for path in workspace.configuring(symbol)[:_MOST_CONFIGURATIONS] if symbol.kind == "class" else ():
            used = True
            _keep(
                found, Entry(path, f"{CONFIGURED}{symbol.file}::{symbol.name}"), (depth, distance(kind.file, path), 0)
            )
        for home in workspace.homes(symbol) if symbol.kind in ("class", "function") else ():
            if home not in seen:
                seen.add(home)
                queue.append((home, depth + 1))
        for below in workspace.symbols.subclasses(kind) if symbol == kind else ():
            if below not in seen:  # passes it arguments by `super().__init__`
                seen.add(below)
                queue.append((below, 1))
        for path, scope in mentions(workspace, symbol):
            scopes += 1
            above = list(_above(workspace, path, scope, symbol))
            for each in above:
                used = True
                if each not in seen and depth < _MOST_DEPTH:
                    seen.add(each)
                    queue.append((each, depth + 1))
            key = (depth, distance(kind.file, path), _is_test(path))
            if not scope:
                used = True
                _keep(found, Entry(path, ""), key)
                if above and symbol.kind == "class":  # a table that may contain its options
                    _keep(found, Entry(path, f"{CONFIGURED}{symbol.file}::{symbol.name}"), (_MOST_DEPTH, *key[1:]))
            elif symbol.kind != "value" and depth == 0:
                near.setdefault(Entry(path, _callable(scope)), key)
            if "." in scope and "<locals>" not in scope and _is_test(path):
                # Methods of a test case are called by the test runner.
                _keep(found, Entry(path, scope), key)
                used = True
            if scope.rpartition(".")[2] in _STEPS:
                _keep(found, Entry(path, scope), key)
        if not used and symbol != kind and symbol.kind == "function":
            _keep(
                found, Entry(symbol.file, symbol.name), (depth, distance(kind.file, symbol.file), _is_test(symbol.file))
            )
        if symbol.kind == "class" and symbol != kind:
            for step in sorted(_STEPS & set(_methods(workspace, symbol))):
                _keep(
                    found, Entry(symbol.file, f"{symbol.name}.{step}"), (depth + 1, distance(kind.file, symbol.file), 0)
                )
        if symbol.kind == "class" and not used and symbol != kind:
            entry = Entry(symbol.file, f"{symbol.name}.__init__")
            _keep(found, entry, (depth + 2, distance(kind.file, symbol.file), 0))
    ordered = sorted(found, key=lambda entry: (*found[entry], *_order(workspace, entry)))
    rest = sorted(set(near) - set(found), key=lambda entry: (*near[entry], *_order(workspace, entry)))
    return ordered, rest


def _order(workspace: Workspace, entry: Entry) -> tuple[str, int, str]:
    scope = workspace.symbols.scopes(entry.file).get(entry.scope)
    return entry.file, scope.line if scope is not None else 0, entry.scope


def _finders(workspace: Workspace, kind: Symbol) -> Iterator[Symbol]:
    """Functions and classes that import modules by computed names, the nearest first."""
    if not workspace.symbols.is_module(kind):
        return
    for path in sorted(workspace.readers("import_module"), key=lambda path: (distance(kind.file, path), path)):
        for scope in workspace.facts[path].scopes:
            if scope.name and any(name.rpartition(".")[2] == "import_module" for name in scope.names):
                yield next(_above(workspace, path, scope.name, kind))


_STEPS = {"training_step", "validation_step", "test_step", "predict_step", "model_step", "shared_step"}


def _methods(workspace: Workspace, kind: Symbol) -> tuple[str, ...]:
    fact = workspace.symbols.classes(kind.file).get(kind.name)
    return fact.methods if fact is not None else ()


def _keep(found: dict[Entry, tuple[int, ...]], entry: Entry, key: tuple[int, ...]) -> None:
    if entry not in found or key < found[entry]:
        found[entry] = key


def _callable(scope: str) -> str:
    return scope.partition(".<locals>.")[0]


def _above(workspace: Workspace, path: str, scope: str, symbol: Symbol) -> Iterator[Symbol]:
    """Symbols that lead to a scope: the function itself, the class of a method, and variables of a file that hold the
    symbol."""
    outer = _callable(scope)
    if not outer:
        yield from _holders(workspace, path, symbol)
        return
    owner, _, _ = outer.rpartition(".")
    yield Symbol("class", path, owner) if owner else Symbol("function", path, outer)


def _holders(workspace: Workspace, path: str, symbol: Symbol) -> Iterator[Symbol]:
    """Variables of the file whose value names the symbol: ``MODELS = {"unet": UNet}``; and registries that it is
    registered in."""
    tree = workspace.tree(path)
    name = symbol.name.rpartition(".")[2]
    known = {name, *workspace.named_otherwise(name).get(path, ())}
    for node in tree.body if tree is not None else ():
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_names(part) in known for part in ast.walk(node.value)):
                for target in targets:
                    if isinstance(target, ast.Name) and target.id != "__all__":
                        yield Symbol("value", path, target.id)


def _names(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _is_test(path: str) -> int:
    name = os.path.basename(path)
    return int(name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py")
