"""Extends a configuration or a constructor's keywords after an exception by the missing names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from . import asked, blame
from .blame import Failure, Suspect
from .options import Options
from .places import NOTHING, Place, View
from .search import Growth, Move
from .slots import Slot, State, chosen, walk


class Growing:
    """Moves that add attributes, keys or arguments, for `Remedies`."""

    def __init__(self, options: Options, slots: dict[str, Slot], target: type, optional: dict[str, Slot]) -> None:
        self.options = options
        self.slots = slots
        self.target = target
        self.optional = optional

    def grown(self, failed: Failure, blamed: list[tuple[Slot, Suspect]], state: State) -> Iterator[Move]:
        """An attribute or a key that the code reads and the configuration lacks: with all others that the running
        functions read from it."""
        name = None
        if isinstance(failed.error, AttributeError):
            match = re.search(r"has no attribute '(\w+)'", failed.message)
            name = match[1] if match else None
        elif isinstance(failed.error, KeyError) and failed.error.args and isinstance(failed.error.args[0], str):
            name = failed.error.args[0]
        if name is None or not failed.path or isinstance(getattr(failed.error, "obj", None), ModuleType):
            return
        if isinstance(failed.error, KeyError) and _is_constant(asked.owner(failed), failed):
            return
        wanted = getattr(failed.error, "obj", None) if isinstance(failed.error, AttributeError) else None
        read = asked.of(self.options.reader, failed)
        for slot in self._containers(failed, blamed, state, name):
            option = chosen(slot, state)
            if option.kind == "module" and (not option.head or wanted is None):
                continue
            more = [each for each in asked.names(read) if each != name] if option.kind != "module" else []
            if option.kind != "module" and name in option.known:
                known = [option.known[each] for each in (name, *more) if each in option.known]
                yield Growth({each: each.options()[0] for each in known if each not in state})
            elif name not in option.parts:
                grown = replace(option, parts=dict(option.parts), items=list(option.items))
                if grown.kind == "dict":
                    grown.text = ""
                for each in (name, *more):
                    if each not in grown.parts and each not in grown.known:
                        view = View([*_read_of(slot, each).places, *_parts_of(read, each)])
                        grown.parts[each] = self.options.slot(each, view, (*slot.path, each))
                yield Growth({slot: grown})

    def _containers(self, failed: Failure, blamed: list[tuple[Slot, Suspect]], state: State, name: str) -> list[Slot]:
        """Configurations: the one that lacks the name, those from which it is read, then the blamed ones; for modules
        only these."""
        found = [slot for slot, _ in blamed if chosen(slot, state).kind in ("config", "dict", "module")]
        found += [slot for slot in walk(self.slots, state) if chosen(slot, state).kind in ("config", "dict")]
        given = self._given_as(failed)
        return sorted(dict.fromkeys(found), key=lambda slot: (slot.name not in given, not _read_of(slot, name).places))

    def _given_as(self, failed: Failure) -> set[str]:
        """The constructor's arguments that are the object with the missing name."""
        thing = asked.owner(failed)
        if thing is None or not isinstance(failed.path[0].frame.f_locals.get("self"), self.target):
            return set()
        values = failed.path[0].frame.f_locals
        given = {**values, **next((each for each in (values.get("kwargs"),) if isinstance(each, dict)), {})}
        return {name for name, value in given.items() if value is thing}

    def missing(self, failed: Failure, state: State) -> Iterator[Move]:
        """A call inside an expression lacks an argument, or has one too many; or a keyword that is read by name,
        ``kwargs["width"]``, is missing."""
        match = re.search(r"(\w+)\.__init__\(\) missing \d+ required [\w-]+ arguments?: (.*)", failed.message)
        names: list[Any] = list(failed.error.args[:1]) if isinstance(failed.error, KeyError) else []
        statement = blame.statement_of(failed.path[-1]) if failed.path else None
        if isinstance(statement, ast.Assert):  # `assert "width" in kwargs`
            tests = [each for each in ast.walk(statement.test) if isinstance(each, ast.Compare)]
            tests = [each for each in tests if isinstance(each.ops[0], ast.In)]
            names += [each.left.value for each in tests if isinstance(each.left, ast.Constant)]
        if isinstance(failed.error, TypeError) and match is not None:
            names = re.findall(r"'(\w+)'", match[2])
            for slot in walk(self.slots, state):
                option = chosen(slot, state)
                if option.kind == "class" and option.text.rpartition(".")[2] == match[1]:
                    yield from ({slot: other} for other in slot.options() if other is not option)
        parameters = inspect.signature(self.target).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            # Keywords that are passed on to a layer: `self.conv = nn.Conv1d(*args, **kwargs)`.
            more, read = Growth(), asked.of(self.options.reader, failed)
            lacking = self._lacking(failed, match[1]) if match is not None else {}
            for name in names:
                if isinstance(name, str) and name.isidentifier() and name not in parameters:
                    known = [lacking[name]] if name in lacking else _parts_of(read, name)
                    view = View([*self._of_keywords(name), *known, Place(name, NOTHING)])
                    self.optional.setdefault(name, self.options.slot(name, view, (name,), NOTHING))
                    more[self.optional[name]] = self.optional[name].options()[0]
            if more:
                yield more

    def _lacking(self, failed: Failure, name: str) -> dict[str, Place]:
        """What the constructor of the class of this name, which is not given enough, does with its parameters."""
        kind = failed.path[-1].frame.f_globals.get(name) if failed.path else None
        reading = self.options.reader.constructor(kind) if isinstance(kind, type) else None
        return reading.parameters if reading is not None else {}

    def _of_keywords(self, name: str) -> list[Place]:
        """The place of a keyword that the constructor takes by ``**kwargs``."""
        reading = self.options.reader.constructor(self.target)
        if reading is None or reading.extra is None:
            return []
        return View([reading.parameters[reading.extra]]).part("key", name).places


def _is_constant(thing: Any, failed: Failure) -> bool:
    """Whether it is a global of a file: ``URLS[f"r{blocks}"]``."""
    return thing is not None and any(each is thing for each in failed.path[-1].frame.f_globals.values())


def _read_of(slot: Slot, name: str) -> View:
    """The uses of a part of a configuration."""
    return View(_parts_of(slot.view, name))


def _parts_of(view: View, name: str) -> list[Place]:
    return [*view.part("attribute", name).places, *view.part("key", name).places]
