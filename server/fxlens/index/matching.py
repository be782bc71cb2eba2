"""Finds the configuration of the workspace that fits a class without a readable construction: the one with the
attributes that its ``__init__`` reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from . import configs, documents, needs
from .machine import Event, Machine, Workspace
from .needs import Needs
from .render import init_of
from .symbols import Symbol
from .values import OPEN, Function, Hole, Mapping, Object, Value, copied

_NAMES = {
    "args", "arg", "config", "configs", "cfg", "opt", "opts", "options", "hparams", "hp", "hps", "params", "conf",
    "flags",
    "settings", "model_args", "model_config", "model_cfg", "parameters",
}  # fmt: skip
_LEAST = 0.6
_MANY = 3  # reading this many names identifies a configuration
_MOST_READ, _MOST_FILES = 400, 20  # as text, and of these as data
_MOST_DEPTH = 4
_MORE = "more"
"""Marks a table that may have further items."""


def is_configuration(name: str, needed: Needs) -> bool:
    """Whether a parameter is a configuration, by the names read from it."""
    return bool(needed) and (name.lower() in _NAMES or len(needed) >= _MANY)


def _many(needed: Needs) -> bool:
    """Whether so many names are read, also from nested tables, that a match cannot be accidental."""
    return sum(1 for _ in needs.names(needed)) >= _MANY


def coverage(value: Value, needed: Needs) -> float:
    """The share of the needed names that the configuration has."""
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
    """The first of the best matches; None if none fits."""
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
    for name in (each for each in init_of(machine.symbols, kind) if each.isidentifier()):
        chosen = _chosen(machine, needs.of_class(machine.workspace, kind, name), name, near)
        if chosen is not None:
            found[name] = chosen[0]
            place = place or chosen[1]
    return (found, place) if place is not None else None


def filled(workspace: Workspace, event: Event, near: str) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a construction; open ones that are read as a table are filled by a fitting one of the workspace:
    ``Net(spec=config.MODEL.SPEC)``, ``Net(10, **config["model"])``."""
    keywords = dict(event.keywords)
    if OPEN in keywords:
        keywords.update(_spread(Machine(workspace), event, near))
    parameters = [each.rstrip("=") for each in init_of(workspace.symbols, event.what.symbol) if each[:1] != "*"]
    args = [
        _table_for(workspace, event, name, value, near) for name, value in zip(parameters, event.args, strict=False)
    ]
    keywords.update({name: _table_for(workspace, event, name, value, near) for name, value in keywords.items()})
    return [*args, *event.args[len(args) :]], keywords


def _table_for(workspace: Workspace, event: Event, name: str, value: Value, near: str) -> Value:
    """A fitting table for an open value; the value itself if it is not open or none fits."""
    if isinstance(value, Hole) or (isinstance(value, Mapping) and not value.items and not value.whole):
        needed = needs.of_class(workspace, event.what.symbol, name)
        chosen = _chosen(Machine(workspace), needed, name, near) if _many(needed) else None
        return value if chosen is None else chosen[0]
    return value


def for_function(machine: Machine, function: Function) -> dict[str, Value]:
    """Configurations for the parameters of an uncalled function: those with the names that it reads."""
    found = {}
    arguments = function.node.args
    required = [*arguments.posonlyargs, *arguments.args]
    for each in required[: len(required) - len(arguments.defaults)]:
        needed = needs.of_function(machine.workspace, Symbol("function", function.file, function.name), each.arg)
        if each.arg.lower() in _NAMES and _many(needed):
            chosen = _chosen(machine, needed, each.arg, function.file)
            if chosen is not None:
                found[each.arg] = chosen[0]
    return found


def _spread(machine: Machine, event: Event, near: str) -> dict[str, Value]:
    """Keywords from a table in a file whose names are all parameters, including most of the required ones."""
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


def _chosen(machine: Machine, needed: Needs, name: str, near: str) -> tuple[Value, tuple[str, int]] | None:
    """The match for a parameter with these reads, and its place."""
    if not is_configuration(name, needed):
        return None
    chosen = best(_candidates(machine, near, needed), needed)
    if chosen is None:
        return None
    machine.files.add(chosen[1][0])
    return _fresh(copied(chosen[0], {})), chosen[1]


def _candidates(machine: Machine, near: str, needed: Needs) -> Iterator[tuple[Value, tuple[str, int]]]:
    """Candidates: configurations that scripts read, tables within these and within other files, and declarations of
    classes."""
    settings = machine.workspace.settings(near)
    yield from settings
    if not _many(needed):
        return
    for value, place in settings:
        yield from ((inner, place) for inner in _within(value))
    for value, place in _tables(machine, near, needed):
        defaults = next((each for each, _ in settings if _are_defaults_of(each, value)), None)
        if isinstance(defaults, Mapping):  # `cfg.merge_from_file(args.cfg)`
            yield configs.merged(machine, [defaults, value]), place
        yield value, place
    for table, place in machine.workspace.declared(near, set(needed)):
        read = {name: each for name, each in table.items.items() if name in needed}
        # It is not used as a configuration anywhere, so it is only a start for assumptions.
        yield machine.new_dict({**read, _MORE: Hole(_MORE)}, table.kind), place


def _tables(machine: Machine, near: str, needed: Needs) -> Iterator[tuple[Mapping, tuple[str, int]]]:
    """The configuration files with most of the needed names, and their tables; the nearest first, and within a folder
    the one with the smallest numbers."""
    names = set(needs.names(needed))
    naming: dict[str, int] = {}
    for path in machine.workspace.configurations(near, documents.WITH_PYTHON)[:_MOST_READ]:
        text = machine.workspace.raw(path) or ""
        if (known := sum(name in text for name in names)) >= _LEAST * len(names):
            naming[path] = known
    most = sorted(naming, key=lambda path: -naming[path])[:_MOST_FILES]
    read = {path: machine.workspace.configuration(path) for path in naming if path in most}
    found = [(path, data) for path, data in read.items() if isinstance(data, dict)]
    folders = list(dict.fromkeys(os.path.dirname(path) for path, _ in found))
    found.sort(key=lambda each: (folders.index(os.path.dirname(each[0])), configs.size(each[1], names)))
    for path, data in found:
        value = configs.described(machine, data, "config", path)
        if isinstance(value, Mapping):
            yield value, (path, 1)
            yield from ((inner, (path, 1)) for inner in _within(value))


def _are_defaults_of(defaults: Value, table: Mapping) -> bool:
    """Whether one is a configuration of which the other, a file, overrides some values."""
    items = defaults.items if isinstance(defaults, Mapping) and defaults.kind == "config" else {}
    return bool(table.items) and table.items.keys() <= items.keys()


def _within(value: Value, depth: int = 0) -> Iterator[Mapping]:
    for each in value.items.values() if isinstance(value, Mapping) and depth < _MOST_DEPTH else ():
        if isinstance(each, Mapping):
            yield each
            yield from _within(each, depth + 1)


def _fresh(value: Value) -> Value:
    """A copy of the value with its reads cleared."""
    if isinstance(value, Mapping):
        value.missing = {}
        for each in value.items.values():
            _fresh(each)
    return value


def is_settings(value: Value) -> bool:
    """Whether a value of a module is a configuration: several names with plain values."""
    if isinstance(value, Mapping):
        return len(value.items) >= 3 and all(isinstance(key, str) and key.isidentifier() for key in value.items)
    return False
