"""Uses of a parameter in the code: a place collects them, and knows the places that its value flows to.

A place has parts: attributes (``config.dim``), keys (``config["dim"]``), items (``depths[0]``), its result when called.
A view is a place with all places that its value reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NOTHING = object()
"""No default, no annotation."""


class Place:
    """A parameter or a part of one.  ``uses`` are pairs of a kind of use and its detail, in the order they are read."""

    __slots__ = ("annotation", "default", "flows", "name", "parts", "uses")

    def __init__(self, name: str, annotation: Any = NOTHING, default: Any = NOTHING) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.uses: dict[tuple[str, Any], None] = {}
        self.flows: dict[Place, None] = {}
        self.parts: dict[tuple[str, Any], Place] = {}

    def use(self, kind: str, detail: Any = None) -> None:
        try:
            self.uses[(kind, detail)] = None
        except TypeError:
            self.uses[(kind, None)] = None

    def part(self, kind: str, key: Any = None) -> Place:
        found = self.parts.get((kind, key))
        if found is None:
            name = str(key) if isinstance(key, str) else singular(self.name)
            found = self.parts[(kind, key)] = Place(name)
        return found

    def flow(self, other: Place) -> None:
        if other is not self:
            self.flows[other] = None


class View:
    """Places that the same value reaches, nearest first."""

    def __init__(self, places: list[Place]) -> None:
        self.places: list[Place] = []
        self.distance: dict[int, int] = {}
        front, far = list(places), 0
        while front and len(self.places) < 200:
            following: list[Place] = []
            for place in front:
                if id(place) not in self.distance:
                    self.distance[id(place)] = far
                    self.places.append(place)
                    following.extend(place.flows)
            front, far = following, far + 1

    def uses(self, *kinds: str) -> Iterator[tuple[str, Any]]:
        """The uses; only of these kinds, if given."""
        for place in self.places:
            for use in place.uses:
                if not kinds or use[0] in kinds:
                    yield use

    def details(self, *kinds: str) -> list[Any]:
        """The details of uses of these kinds, each once."""
        found: list[Any] = []
        for _, detail in self.uses(*kinds):
            if not any(detail is each or _equal(detail, each) for each in found):
                found.append(detail)
        return found

    def has(self, *kinds: str) -> bool:
        return next(self.uses(*kinds), None) is not None

    def names(self) -> Iterator[tuple[str, int]]:
        """Names under which the value is passed on, with the number of calls in between."""
        for place in self.places:
            yield place.name, self.distance[id(place)]

    def keys(self, kind: str) -> list[Any]:
        """The attributes, keys or items read from the value."""
        return list(dict.fromkeys(key for place in self.places for (part, key) in place.parts if part == kind))

    def part(self, kind: str, key: Any = None) -> View:
        if kind == "item":
            wanted = [
                part
                for place in self.places
                for (each, index), part in place.parts.items()
                if each == "item" and (key is None or index is None or index == key)
            ]
            return View(wanted)
        return View([place.parts[(kind, key)] for place in self.places if (kind, key) in place.parts])

    def __bool__(self) -> bool:
        return bool(self.places)


def _equal(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False


def singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name
