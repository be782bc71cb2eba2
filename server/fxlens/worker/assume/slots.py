"""Slots: an expression is a tree of slots, each with options, the most likely one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .places import NOTHING, View

LEFT_OUT = "left out"
"""The kind of the option to leave an argument out."""


@dataclass(eq=False)
class Option:
    """One way to fill a slot: a text, or a head with parts, ``Config(dim=…)``; ``how`` is its source."""

    kind: str
    how: str
    text: str = ""
    head: str = ""
    parts: dict[str, Slot] = field(default_factory=dict)
    items: list[Slot] = field(default_factory=list)
    known: dict[str, Slot] = field(default_factory=dict)
    """For a call its optional parameters, for a configuration its unread names; they are written only if the state has
    a value for them."""
    makes: type | None = None
    """For a call: the class."""
    spec: Any = None
    """For a tensor: its shape and dtype."""

    @property
    def signature(self) -> str:
        """A key that distinguishes options of a slot."""
        if self.text:
            return self.text
        inner = ",".join(option.signature for slot in self.items for option in slot.options()[:1])
        return f"{self.kind}:{self.head}({inner}){' '.join(sorted(self.parts))}"


@dataclass(eq=False)
class Slot:
    """A value to be found.  ``path`` says where it is: ``("config", "dim")``."""

    name: str
    view: View
    path: tuple[str, ...]
    annotation: Any = NOTHING
    default: Any = NOTHING
    within: tuple[type, ...] = ()
    """Classes whose construction this value is part of."""
    make: Callable[[Slot], list[Option]] | None = None
    _options: list[Option] | None = None

    def options(self) -> list[Option]:
        if self._options is None:
            self._options = self.make(self) if self.make is not None else []
        return self._options

    def add(self, option: Option, first: bool = False) -> Option:
        """The option with this signature, added if new."""
        for each in self.options():
            if each.signature == option.signature:
                return each
        self.options().insert(0 if first else len(self.options()), option)
        return option


State = dict[Slot, Option]
"""The slots with an option other than their first."""


def chosen(slot: Slot, state: State) -> Option:
    option = state.get(slot)
    return option if option is not None else slot.options()[0]


def render(option: Option, state: State) -> str:
    """The text of an option, with that of its parts."""
    if option.kind in ("list", "tuple"):
        inner = [render(chosen(slot, state), state) for slot in option.items]
        if option.kind == "tuple":
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        return f"[{', '.join(inner)}]"
    named = {**option.parts, **{name: slot for name, slot in option.known.items() if slot in state}}
    if option.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {render(chosen(s, state), state)}" for key, s in named.items()) + "}"
    if option.head:
        inner = [render(chosen(slot, state), state) for slot in option.items]
        inner += [f"{name}={render(chosen(slot, state), state)}" for name, slot in named.items() if name.isidentifier()]
        return f"{option.head}({', '.join(inner)})"
    return option.text


def walk(slots: dict[str, Slot], state: State) -> Iterator[Slot]:
    """All active slots in this state, outer ones first."""
    for slot in slots.values():
        yield slot
        option = chosen(slot, state)
        yield from walk(option.parts, state)
        yield from walk({name: each for name, each in option.known.items() if each in state}, state)
        yield from walk({str(index): item for index, item in enumerate(option.items)}, state)


def arguments(slots: Mapping[str, Slot], state: State) -> str:
    """The arguments of a call, by keyword."""
    return ", ".join(f"{name}={render(option, state)}" for name, option in given(slots, state))


def given(slots: Mapping[str, Slot], state: State) -> Iterator[tuple[str, Option]]:
    """The chosen option of each argument that is not left out."""
    for name, slot in slots.items():
        if (option := chosen(slot, state)).kind != LEFT_OUT:
            yield name, option
