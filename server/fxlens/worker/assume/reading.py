"""Reads functions without running them, to find the uses of their parameters.

A small abstract interpreter: a value is a `Place` (a parameter, or a part of one), something `Known` (a definition of
the module, a constant, a real submodule), a `Sequence` of values, or None for others. Each function is read once; a
call connects its arguments with the callee's parameters.
"""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any

from .body import Body
from .places import NOTHING, Place
from .source import FunctionNode, Sources, plain
from .values import Known, Reading, Self

MOST_NODES = 40_000
"""The most expressions that are read for one class."""
_DEPTH = 6


class Reader:
    """Readings of functions and classes, made on demand."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.left = MOST_NODES
        self.depth = 0
        self._functions: dict[Any, Reading] = {}
        self._classes: dict[type, Reading | None] = {}
        self._signatures: dict[Any, dict[str, Place] | None] = {}
        self._owners: dict[type, Self] = {}
        self._own_modules: list[type] | None = None
        self._attributes: dict[type, set[str]] = {}
        self._alive: list[Any] = []  # keeps objects alive whose ids are keys

    def constructor(self, kind: type) -> Reading | None:
        """The uses of the parameters of ``__init__`` in all methods of the class."""
        if kind not in self._classes:
            self._classes[kind] = None
            owner = self._owners[kind] = Self(kind)
            function = plain(kind.__init__)  # type: ignore[misc]
            reading = self.function(function, owner) if function is not None else None
            self._classes[kind] = reading
            if reading is not None:
                for name in [name for each in kind.__mro__[:-1] for name in vars(each) if self._is_own_class(each)]:
                    method = plain(inspect.getattr_static(kind, name, None))
                    if method is not None and name != "__init__":
                        self.function(method, owner)
        return self._classes[kind]

    def forward(self, module: Any) -> Reading | None:
        """The uses of forward's arguments in a constructed module."""
        function = plain(getattr(module, "forward", None))
        return self.function(function, Self(type(module), module)) if function is not None else None

    def function(self, function: Any, owner: Self | None = None) -> Reading | None:
        """The uses of a function's parameters; None if it has no source."""
        node = self.sources.of_function(function)
        if node is None:
            return None
        key = (function.__code__, id(owner.real if owner is not None and owner.real is not None else owner))
        known = self._functions.get(key)
        if known is not None:
            return known
        defaults = _defaults(function)
        notes = {name: resolved(note, function) for name, note in getattr(function, "__annotations__", {}).items()}
        places = {
            each.arg: Place(each.arg, notes.get(each.arg, NOTHING), defaults.get(each.arg, NOTHING))
            for each in _parameters(node)
        }
        own = owner is not None and node.args.args[:1] != []
        reading = _reading(node, places, own)
        self._functions[key] = reading
        self._alive.append(owner)
        if self.left <= 0 or self.depth > _DEPTH:
            return reading
        names: dict[str, Any] = dict(places)
        if own:
            names[node.args.args[0].arg] = owner
            if "." in function.__qualname__:
                names["__class__"] = Known(_owner_class(owner.kind, function))  # type: ignore[union-attr]
        self.depth += 1
        try:
            Body(self, function, names, owner, reading).run(node)
        finally:
            self.depth -= 1
        return reading

    def signature(self, function: Any) -> dict[str, Place] | None:
        """Parameters of something installed: only names, annotations and defaults are known."""
        try:
            known = self._signatures.get(function, NOTHING)
        except TypeError:
            return None
        if known is NOTHING:
            try:
                parameters = inspect.signature(function).parameters.values()
                known = {each.name: _place_of(each) for each in parameters}
            except (TypeError, ValueError):
                known = None
            self._signatures[function] = known
        return known  # type: ignore[return-value]

    def stored(self, kind: type, name: str) -> Place | None:
        """The place of an attribute of a class whose constructor has been read."""
        owner = self._owners.get(kind)
        place = owner.stored.get(name) if owner is not None else None
        return place if isinstance(place, Place) else None

    def module_classes(self) -> list[type]:
        """Module classes of the workspace that have been imported."""

        import torch

        if self._own_modules is None:
            found: dict[type, None] = {}
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and self.sources.is_own(file):
                    for each in list(vars(module).values()):
                        if (
                            isinstance(each, type)
                            and issubclass(each, torch.nn.Module)
                            and each.__module__ == module.__name__
                        ):
                            found[each] = None
            self._own_modules = list(found)
        return self._own_modules

    def attributes(self, kind: type) -> set[str]:
        """Names that instances of a class of the workspace have: those stored on self, and those of the class."""
        known = self._attributes.get(kind)
        if known is None:
            known = {name for each in kind.__mro__ for name in vars(each)}
            for each in kind.__mro__:
                node = (
                    self.sources.of_function(vars(each).get("__init__"))
                    if self.is_own(vars(each).get("__init__"))
                    else None
                )
                if node is not None:
                    known |= {
                        part.attr
                        for part in ast.walk(node)
                        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
                    }
            self._attributes[kind] = known
        return known

    def is_own(self, thing: Any) -> bool:
        function = plain(thing)
        return function is not None and self.sources.is_own(function.__code__.co_filename)

    def _is_own_class(self, kind: type) -> bool:
        return any(self.is_own(value) for value in vars(kind).values())


def resolved(note: Any, function: Any) -> Any:
    """An annotation given as text, evaluated if possible."""
    if not isinstance(note, str):
        return note
    try:
        return eval(note, getattr(function, "__globals__", {}))
    except Exception:
        return note


def _owner_class(kind: type, function: Any) -> type:
    for each in kind.__mro__:
        if any(plain(value) is function for value in vars(each).values()):
            return each
    return kind


def _parameters(node: FunctionNode) -> list[ast.arg]:
    args = node.args
    most = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return most + [each for each in (args.vararg, args.kwarg) if each is not None]


def _reading(node: FunctionNode, places: dict[str, Place], own: bool) -> Reading:
    args = node.args
    order = [each.arg for each in (*args.posonlyargs, *args.args)][1 if own else 0 :]
    named = [each.arg for each in args.kwonlyargs]
    rest = args.vararg.arg if args.vararg else None
    extra = args.kwarg.arg if args.kwarg else None
    return Reading(places, order, named, rest, extra)


def _defaults(function: Any) -> dict[str, Any]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    found = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return {**found, **(function.__kwdefaults__ or {})}


def _place_of(parameter: inspect.Parameter) -> Place:
    empty = inspect.Parameter.empty
    note = NOTHING if parameter.annotation is empty else parameter.annotation
    return Place(parameter.name, note, NOTHING if parameter.default is empty else parameter.default)
