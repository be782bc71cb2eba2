"""State outside of modules: globals, closures, attributes of classes, objects and functions."""

from __future__ import annotations

import array
import collections
import copy
import functools
import os
import queue
import random
import threading
from collections.abc import Iterable, Iterator
from operator import is_
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn

from fxlib.diagnosis.engine.reach import is_users, names_in
from fxlib.ir.objects import attributes_of, has_attribute, home_of, is_a

__all__ = ["Shared", "SharedChange", "refill", "same"]

_CONTAINERS = (
    dict,
    list,
    set,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
    collections.deque,
)
_PLAIN = (SimpleNamespace, threading.local, queue.Queue)
_NESTED = 100
"""Larger containers are not searched for nested ones."""
_ABSENT = object()


class SharedChange(NamedTuple):
    """A trace's change of ``name`` or its contents. ``owner`` is the class whose attribute it is; ``of_module`` marks
    attributes of modules."""

    name: str
    owner: type | None
    after: Any
    of_module: bool = False


def same(current: Any, before: Any) -> bool:
    """Whether two containers hold identical items in the same order."""
    if isinstance(current, set):
        return bool(current == before)
    if isinstance(current, dict):
        return list(current) == list(before) and all(map(is_, current.values(), before.values()))
    return len(current) == len(before) and all(map(is_, current, before))


def refill(container: Any, before: Any) -> None:
    """Restore the items of a container."""
    container.clear()
    container.extend(before) if isinstance(container, (list, collections.deque)) else container.update(before)


class Shared:
    """The current state that ``functions`` name, and the attributes of ``classes``.

    An instance of a user's class counts as the container of its attributes, as does a function. ``held`` are the
    attributes of modules, which may hold such objects; ``opaque`` names those that change without visible state, such
    as iterators.
    """

    def __init__(
        self, functions: Iterable[FunctionType], classes: Iterable[type], held: Iterable[tuple[str, Any]] = ()
    ) -> None:
        self._names: list[tuple[Any, str, Any]] = []
        self._containers: list[tuple[str, type | None, Any, Any]] = []
        self._spaces: dict[int, tuple[dict[str, Any], int, set[str]]] = {}
        self._seen: set[int] = set()
        self._of_modules: set[int] = set()
        self.opaque: dict[str, Any] = {}
        self._classes: dict[type, dict[str, Any]] = {}
        for kind in classes:
            self._keep_class(kind)
        for function in functions:
            self._keep_function(function)
        for name, value in held:
            self._keep_held(name, value)

    def _keep_held(self, name: str, value: Any, depth: int = 3) -> None:
        """Keep the value of a module's attribute, or its contents."""
        if is_a(value, (str, int, float, type(None), nn.Module, torch.Tensor, type, FunctionType, ModuleType)):
            return
        if _is_opaque(value):
            self.opaque.setdefault(name, value)
        elif is_a(value, functools.partial):
            for each in (*value.args, *value.keywords.values()) if depth else ():
                self._keep_held(name, each, depth - 1)
        elif is_a(value, tuple):
            for each in tuple.__iter__(value) if depth and tuple.__len__(value) <= _NESTED else ():
                self._keep_held(name, each, depth - 1)
        elif id(value) not in self._seen:
            own = is_a(value, _PLAIN) or is_users(type(value))
            content = value if type(value) in _CONTAINERS else attributes_of(value) if own else None
            if content is None:
                if own and has_attribute(value, "__slots__"):
                    self.opaque.setdefault(name, value)
                return
            self._seen |= {id(value), id(content)}
            # A module's own list, dict or set is compared with the module.
            if not (depth == 3 and is_a(value, (dict, list, set))):
                self._containers.append((name, None, content, copy.copy(content)))
                self._of_modules.add(id(content))
            for each in (content.values() if isinstance(content, dict) else content) if depth else ():
                if len(content) <= _NESTED:
                    self._keep_held(name, each, depth - 1)

    def _keep_function(self, function: FunctionType) -> None:
        space, names = function.__globals__, list(names_in(function.__code__))
        _, _, named = self._spaces.setdefault(id(space), (space, len(space), set()))
        modules = []
        for name in names:
            if name in named:
                continue
            named.add(name)
            if name in space:
                self._keep(space, name, space[name])
                if is_a(space[name], ModuleType) and is_users(space[name]):
                    modules.append(vars(space[name]))
                elif space[name] is os and "environ" in names:
                    self._keep(vars(os), "environ", os.environ)
        for module in modules:
            for name in names:
                if name in module:
                    self._keep(module, name, module[name])
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _current(cell, "")
            if value is not _ABSENT:
                self._keep(cell, name, value)
        given = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = dict(zip(reversed(given), reversed(function.__defaults__ or ()), strict=False))
        for name, default in {**defaults, **(function.__kwdefaults__ or {})}.items():
            self._keep_content(name, None, default)
        self._keep_content(function.__name__, None, vars(function))

    def _keep_class(self, kind: type) -> None:
        if kind not in self._classes and is_users(kind):
            known = self._classes[kind] = _attributes(kind)
            for name, value in known.items():
                self._keep_content(name, kind, value)

    def _keep(self, owner: Any, name: str, value: Any) -> None:
        self._names.append((owner, name, value))
        if is_a(value, type):
            self._keep_class(value)
        elif type(value) in _CONTAINERS:
            self._keep_content(name, None, value)
        elif value is os.environ:
            self._keep_content(name, None, vars(value)["_data"])
        elif is_a(value, _PLAIN) or (not is_a(value, (FunctionType, ModuleType)) and is_users(type(value))):
            self._keep_content(name, None, attributes_of(value))

    def _keep_content(self, name: str, owner: type | None, value: Any, depth: int = 3) -> None:
        if type(value) not in _CONTAINERS or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._containers.append((name, owner, value, copy.copy(value)))
        if depth > 1 and len(value) <= _NESTED:
            for item in value.values() if isinstance(value, dict) else value:
                self._keep_content(name, owner, item, depth - 1)

    def changes(self) -> list[SharedChange]:
        """The current differences, each name once."""
        found: dict[tuple[str, type | None], SharedChange] = {}
        for change in self._changes():
            found.setdefault((change.name, change.owner), change)
        return list(found.values())

    def _changes(self) -> Iterator[SharedChange]:
        for owner, name, before in self._names:
            now = _current(owner, name)
            if now is not before:
                yield SharedChange(name, None, now)
        for space, name in self._new_names():
            yield SharedChange(name, None, space[name])
        for kind, before in self._classes.items():
            for name, value in _attributes(kind).items():
                if before.get(name, _ABSENT) is not value:
                    yield SharedChange(name, kind, value)
        for name, of, value, before in self._containers:
            if not same(value, before):
                yield SharedChange(name, of, value, id(value) in self._of_modules)

    def _new_names(self) -> Iterator[tuple[dict[str, Any], str]]:
        for space, count, named in self._spaces.values():
            for name in list(space)[count:] if len(space) > count else ():
                if name in named and not name.startswith("__") and not isinstance(space[name], ModuleType):
                    yield space, name

    def restore(self) -> None:
        """Restore everything."""
        for owner, name, value in self._names:
            if _current(owner, name) is value:
                continue
            if isinstance(owner, CellType):
                owner.cell_contents = value
            else:
                owner[name] = value
        for space, name in list(self._new_names()):
            del space[name]
        for kind, before in self._classes.items():
            now = _attributes(kind)
            if same(now, before):
                continue
            for name in [name for name in now if name not in before]:
                type.__delattr__(kind, name)
            for name in [name for name in before if now.get(name, _ABSENT) is not before[name]]:
                type.__setattr__(kind, name, before[name])
        for _, _, value, content in self._containers:
            if not same(value, content):
                refill(value, content)


def _is_opaque(value: Any) -> bool:
    """Whether a value may change without any difference in its kept state."""
    home = home_of(type(value)).partition(".")[0]
    return has_attribute(value, "__next__") or is_a(value, (array.array, random.Random)) or home == "numpy"


def _attributes(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}


def _current(owner: Any, name: str) -> Any:
    if isinstance(owner, CellType):
        try:
            return owner.cell_contents
        except ValueError:
            return _ABSENT
    return owner.get(name, _ABSENT)
