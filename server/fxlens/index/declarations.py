"""Classes of the workspace that declare the fields of a configuration, with defaults: data classes, classes of
attributes, and those whose ``__init__`` has defaults; and functions that make one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from . import configs, documents, fields
from .machine import MOST_STEPS, Exhausted, Frame
from .runs import Interpreter
from .symbols import Symbol
from .values import Class, External, Function, Hole, Mapping, Object, Value
from .workspace import Workspace, distance

Declared = tuple[Mapping, tuple[str, int]]
"""A table of defaults, and its place."""
_NAMED = re.compile(r"config|cfg|args|arguments|params|settings|options|hparams", re.IGNORECASE)
_MOST, _MOST_ALONE, _MOST_BESIDE = 3, 12, 4
_LEAST, _LEAST_ALONE, _LEAST_OF_FILE = 0.6, 0.3, 0.8
_MOST_FILES = 40
_MAKES = re.compile(r"(get|make|build|create|default)_(\w+_)?(configs?|cfg|hparams)(_defaults)?")
_MOST_FUNCTIONS = 12


class Declarations:
    """Finds them by the names that a class reads. Results are cached until `forget`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.forget()

    def forget(self) -> None:
        """Clear the cache after a change of the workspace."""
        self._names: dict[Symbol, frozenset[str]] | None = None
        self._tables: dict[tuple[Symbol, ...], list[Declared]] = {}

    def fitting(self, near: str, wanted: set[str]) -> list[Declared]:
        """Those that declare most of these names, the best and then the nearest first: with the changes of a
        configuration file, and unchanged."""
        if self._names is None:
            self._names = dict(self._all())
        alone = sorted(
            (-share, distance(near, kind.file), kind.file, kind.name, kind)
            for kind, names in self._names.items()
            if (share := len(wanted & names) / len(wanted)) >= _LEAST_ALONE
        )
        found = [self._together(kind, wanted) for *_, kind in alone[:_MOST_ALONE]]
        found.sort(key=lambda each: each[0])
        return [each for share, kinds in found[:_MOST] if -share >= _LEAST for each in self._of(kinds, wanted)]

    def _together(self, kind: Symbol, wanted: set[str]) -> tuple[float, tuple[Symbol, ...]]:
        """A class combined with neighbours of it or its bases that declare the missing names, since the real one may be
        composed of them; preceded by the negative share of the wanted names."""
        assert self._names is not None
        files = {each.file for each in self._workspace.symbols.mro(kind)}
        kinds, left = [kind], wanted - self._names[kind]
        beside = [each for each in self._names if each.file in files and each != kind]
        while left and len(kinds) <= _MOST_BESIDE:
            most = max(beside, key=lambda each: len(left & self._names[each]), default=None)  # type: ignore[index]
            if most is None or not left & self._names[most]:
                break
            kinds.append(most)
            left = left - self._names[most]
        return len(left) / len(wanted) - 1, tuple(kinds)

    def _all(self) -> Iterator[tuple[Symbol, frozenset[str]]]:
        for path, facts in self._workspace.facts.items():
            for fact in facts.classes:
                kind = Symbol("class", path, fact.name)
                if "<locals>" not in fact.name and self._declares(kind):
                    yield kind, frozenset(self._declared(kind))

    def _declares(self, kind: Symbol) -> bool:
        symbols = self._workspace.symbols
        if symbols.is_module(kind) or fields.is_enum(symbols, kind):
            return False
        return fields.declares_fields(symbols, kind) or bool(_NAMED.search(kind.name.rpartition(".")[2]))

    def _declared(self, kind: Symbol) -> Iterator[str]:
        for each in self._workspace.symbols.mro(kind):
            fact = self._workspace.symbols.classes(each.file).get(each.name) if each.kind == "class" else None
            if fact is not None:
                yield from fact.fields
                yield from (name.rstrip("=") for name in fact.init if name[:1] != "*")

    def _of(self, kinds: tuple[Symbol, ...], wanted: set[str]) -> list[Declared]:
        if kinds not in self._tables:
            machine = Interpreter(self._workspace, MOST_STEPS)
            items: dict[str, Value] = {}
            for kind in reversed(kinds):
                machine.frames[:] = [Frame(kind.file, "", machine.names_of(kind.file))]
                with suppress(Exhausted, RecursionError):
                    items.update(_defaults(machine, kind))
            known = {name: each for name, each in items.items() if not isinstance(each, (Hole, External))}
            fact = self._workspace.symbols.classes(kinds[0].file)[kinds[0].name]
            table = machine.new_dict(dict(known), "config")
            self._tables[kinds] = [(table, (kinds[0].file, fact.line)), *self._changes(machine, set(known))]
        made, *changes = self._tables[kinds]
        most = max(changes, key=lambda each: len(wanted & each[0].items.keys()), default=None)
        if most is None or len(wanted & most[0].items.keys()) < _MOST:
            return [made]
        merged = configs.merged(Interpreter(self._workspace), [made[0], most[0]])
        return [(merged, most[1]), made] if isinstance(merged, Mapping) else [made]

    def _changes(self, machine: Interpreter, names: set[str]) -> Iterator[Declared]:
        """The configuration files, the nearest first, that contain little but these names."""
        for path in self._workspace.configurations(machine.frame.file, documents.SUFFIXES)[:_MOST_FILES]:
            text = self._workspace.raw(path) or ""
            if sum(name in text for name in names) < _MOST:
                continue
            data = self._workspace.configuration(path)
            given = {str(key).replace("-", "_"): each for key, each in data.items()} if isinstance(data, dict) else {}
            if len(given) >= _MOST and len(names & given.keys()) >= _LEAST_OF_FILE * len(given):
                value = configs.described(machine, given, "config", path)
                if isinstance(value, Mapping):
                    yield value, (path, 1)


def given_by_functions(workspace: Workspace, near: str) -> Iterator[Declared]:
    """The results of functions without parameters that make a configuration, ``def get_config():``, the nearest
    first."""
    found = [
        (distance(near, path), path, scope)
        for path, facts in workspace.facts.items()
        for scope in facts.scopes
        if _MAKES.fullmatch(scope.name)
    ]
    for _, path, scope in sorted(found, key=lambda each: (*each[:2], each[2].name))[:_MOST_FUNCTIONS]:
        machine = Interpreter(workspace, MOST_STEPS)
        machine.frames.append(Frame(path, "", machine.names_of(path)))
        function = machine.module_name(path, scope.name)
        arguments = function.node.args if isinstance(function, Function) else None
        if isinstance(function, Function) and arguments is not None and len(arguments.args) == len(arguments.defaults):
            with suppress(Exhausted, RecursionError):
                made = machine.invoke(function, [], {})
                if isinstance(made, Mapping) and made.items:
                    yield made, (path, scope.line)


def _defaults(machine: Interpreter, kind: Symbol) -> dict[str, Value]:
    """The attributes of an instance constructed without arguments, as far as known."""
    if fields.declares_fields(machine.symbols, kind):
        return {each.name: each.default for each in fields.declared(machine, Class(kind)) if each.default is not None}
    fact = machine.symbols.classes(kind.file)[kind.name]
    named = machine.class_names_of(Class(kind))
    found = {name: each for name in fact.fields if isinstance(each := named.get(name), Value)}
    made = machine.construct(Class(kind), [], {}, configs.NOWHERE)
    return {**found, **made.fields} if isinstance(made, Object) else found
