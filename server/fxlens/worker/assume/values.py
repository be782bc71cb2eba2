"""Abstract values of code that is read, not run; None for irrelevant ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .places import Place
from .source import FunctionNode

if TYPE_CHECKING:
    from .body import Body


@dataclass(eq=False)
class Known:
    """A value that already exists."""

    value: Any


@dataclass(eq=False)
class Sequence:
    """A list or tuple that the code makes."""

    items: list[Any]


@dataclass(eq=False)
class Shape:
    """``x.shape`` of a place; with ``index`` one of its sizes."""

    place: Place
    index: int | None = None


@dataclass(eq=False)
class Local:
    """A function defined inside the one that is read."""

    node: FunctionNode
    scope: Body


@dataclass(eq=False)
class Bound:
    """A method of something whose value is a place."""

    place: Place
    name: str


@dataclass(eq=False)
class Method:
    """A method of the object that is read."""

    owner: Self
    function: Any


@dataclass(eq=False)
class Parent:
    """``super()``."""

    owner: Self
    above: type


@dataclass(eq=False)
class Self:
    """The object whose methods are read: ``real`` if it exists, otherwise the attributes that its code stores."""

    kind: type
    real: Any = None
    stored: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Reading:
    """A function that was read: its parameters, and what it returns."""

    parameters: dict[str, Place]
    order: list[str]
    named: list[str] = field(default_factory=list)
    rest: str | None = None
    extra: str | None = None
    returns: list[Any] = field(default_factory=list)


class Identity:
    """Wraps a possibly unhashable object as the detail of a use."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
