"""Which configuration of the workspace fits a class that nobody constructs in a way that can be followed: the one that
has the attributes which its ``__init__`` reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from . import configs, documents
from .machine import Event, Machine, Workspace
from .render import init_of
from .symbols import Symbol, Symbols
from .values import OPEN, Hole, Mapping, Object, Value, copied

Needs = dict[str, Any]
"""Attributes, and what is read of each in turn."""
_NAMES = {
    "args", "arg", "config", "configs", "cfg", "opt", "opts", "options", "hparams", "hp", "hps", "params", "conf",
    "flags",
    "settings", "model_args", "model_config", "model_cfg", "parameters",
}  # fmt: skip
_LEAST = 0.6
_MANY = 3  # so many names that are read tell a configuration by themselves
_MOST_READ, _MOST_FILES = 400, 20  # as text, and of these as data
_MOST_DEPTH = 4


def needs(node: ast.ClassDef | None, parameter: str) -> Needs:
    """What the methods of a class read of a parameter of ``__init__``, also where it is kept as ``self.parameter``."""
    found: Needs = {}
    if node is None:
        return found
    for method in node.body:
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        kept = {f"self.{parameter}", *([parameter] if method.name == "__init__" else [])}
        if method.name == "__init__":
            for part in ast.walk(method):
                if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name) and part.value.id == parameter:
                    kept.update(ast.unparse(each) for each in part.targets if isinstance(each, ast.Attribute))
        for part in ast.walk(method):
            path = _path(part, kept)
            at = found
            for name in path or ():
                at = at.setdefault(name, {})
    return found


def _path(node: ast.AST, roots: set[str]) -> list[str] | None:
    """``args.model.dim`` and ``cfg["dim"]`` as names below one of the roots."""
    names: list[str] = []
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and ast.unparse(node) in roots:
            break
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            names.append(node.slice.value)
            node = node.value
        elif isinstance(node, ast.Name) and node.id in roots:
            break
        else:
            return None
    return [
        name for name in reversed(names) if name not in ("get", "items", "keys", "values", "copy", "__dict__", "pop")
    ]


def is_configuration(name: str, needed: Needs) -> bool:
    """Whether a parameter is one, by what is read of it."""
    return bool(needed) and (name.lower() in _NAMES or len(needed) >= _MANY)


def coverage(value: Value, needed: Needs) -> float:
    """Which share of what is needed the configuration has."""
    if not needed:
        return 1.0
    items = value.items if isinstance(value, Mapping) else value.fields if isinstance(value, Object) else {}
    found = 0.0
    for name, inner in needed.items():
        if name in items:
            part = items[name]
            nested = inner and isinstance(part, (Mapping, Object))
            found += coverage(part, inner) if nested else 1.0
    return found / len(needed)


def best(candidates: Iterable[tuple[Value, tuple[str, int]]], needed: Needs) -> tuple[Value, tuple[str, int]] | None:
    """The first of those that fit best; None where none fits."""
    chosen, share = None, _LEAST
    for value, place in candidates:
        fits = coverage(value, needed)
        if fits > share or (chosen is None and fits >= share):
            chosen, share = (value, place), fits
    return chosen


def given(machine: Machine, kind: Symbol, near: str) -> tuple[dict[str, Value], tuple[str, int]] | None:
    """Arguments for a class from the configurations of the workspace, and where the first was declared."""
    found: dict[str, Value] = {}
    place: tuple[str, int] | None = None
    for name in (each for each in _init(machine.symbols, kind) if each.isidentifier()):
        chosen = _chosen(machine, kind, name, near)
        if chosen is not None:
            found[name] = chosen[0]
            place = place or chosen[1]
    return (found, place) if place is not None else None


def filled(workspace: Workspace, event: Event, near: str) -> dict[str, Value]:
    """The keywords of a construction; what it leaves open, and is read as a table, is one of the workspace that fits:
    ``Net(spec=config.MODEL.SPEC)``, ``Net(10, **config["model"])``."""
    found = dict(event.keywords)
    if OPEN in found:
        found.update(_spread(Machine(workspace), event, near))
    for name, value in event.keywords.items():
        if isinstance(value, Hole) or (isinstance(value, Mapping) and not value.items and not value.whole):
            chosen = _chosen(Machine(workspace), event.what.symbol, name, near, _MANY)
            if chosen is not None:
                found[name] = chosen[0]
    return found


def _spread(machine: Machine, event: Event, near: str) -> dict[str, Value]:
    """Keywords from a table of a file that names nothing but parameters, and most of those that are required."""
    parameters = [each for each in init_of(machine.symbols, event.what.symbol) if each[:1] != "*"]
    known = {each.rstrip("=") for each in parameters[: len(event.args)]} | event.keywords.keys()
    needed: Needs = {each: {} for each in parameters if each.isidentifier() and each not in known}
    if len(needed) < _MANY:
        return {}
    names = {each.rstrip("=") for each in parameters} - known
    tables = _tables(machine, near, needed)
    chosen = best(((each, place) for each, place in tables if set(each.items) <= names), needed)
    table = chosen[0] if chosen is not None else None
    return {str(name): each for name, each in table.items.items()} if isinstance(table, Mapping) else {}


def _chosen(
    machine: Machine, kind: Symbol, name: str, near: str, least: int = 1
) -> tuple[Value, tuple[str, int]] | None:
    """What fits a parameter of a class of which at least so many names are read, and where it was declared."""
    needed = needs(machine.workspace.node(kind.file, kind.name), name)
    if len(needed) < least or not is_configuration(name, needed):
        return None
    chosen = best(_candidates(machine, near, needed), needed)
    if chosen is None:
        return None
    machine.files.add(chosen[1][0])
    return _fresh(copied(chosen[0], {})), chosen[1]


def _candidates(machine: Machine, near: str, needed: Needs) -> Iterator[tuple[Value, tuple[str, int]]]:
    """Configurations that scripts read; and tables within these, and within files that nobody says are read."""
    settings = machine.workspace.settings(near)
    yield from settings
    if len(needed) < _MANY:
        return
    for value, place in settings:
        yield from ((inner, place) for inner in _within(value))
    yield from _tables(machine, near, needed)


def _tables(machine: Machine, near: str, needed: Needs) -> Iterator[tuple[Mapping, tuple[str, int]]]:
    """The configuration files that name most of what is needed, the nearest first, and the tables within them."""
    left = _MOST_FILES
    for path in machine.workspace.configurations(near, documents.SUFFIXES)[:_MOST_READ]:
        text = machine.workspace.raw(path) or ""
        if not left or sum(name in text for name in needed) < _LEAST * len(needed):
            continue
        left -= 1
        data = machine.workspace.configuration(path)
        value = configs.described(machine, data, origin=path) if isinstance(data, dict) else None
        if isinstance(value, Mapping):
            yield value, (path, 1)
            yield from ((inner, (path, 1)) for inner in _within(value))


def _within(value: Value, depth: int = 0) -> Iterator[Mapping]:
    for each in value.items.values() if isinstance(value, Mapping) and depth < _MOST_DEPTH else ():
        if isinstance(each, Mapping):
            yield each
            yield from _within(each, depth + 1)


def _fresh(value: Value) -> Value:
    """The value as nobody has read it yet."""
    if isinstance(value, Mapping):
        value.missing = {}
        for each in value.items.values():
            _fresh(each)
    return value


def _init(symbols: Symbols, kind: Symbol) -> tuple[str, ...]:
    fact = symbols.classes(kind.file).get(kind.name)
    return fact.init if fact is not None else ()


def is_settings(value: Value) -> bool:
    """Whether a value of a module is a configuration: several names with plain values."""
    if isinstance(value, Mapping):
        return len(value.items) >= 3 and all(isinstance(key, str) and key.isidentifier() for key in value.items)
    return False
