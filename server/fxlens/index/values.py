"""Abstract values of a script's expressions: Python values, objects of the workspace, expressions over both, and holes
for unknown values.

A value describes a user's object and never is one. `render` turns it back into Python.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from .symbols import Symbol

Env = dict[str, "Value"]
OPEN = "**"
"""The key among keyword arguments that stands for further unknown ones."""
SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, PurePath)
MOST_TEXT = 1 << 16
"""Limits of known values: characters of a string, bits of an integer, items of a growing list. Larger ones are never
arguments of a model, and C code on them cannot be interrupted."""


class Unknown(Exception):
    """A value is not fully known."""


class Value:
    """Base of all."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Const(Value):
    """A number, a text, True, None, a path."""

    value: Any


@dataclass(slots=True, eq=False)
class Sequence(Value):
    """A list, tuple or set. ``whole`` is False if there may be further items."""

    kind: str
    items: list[Value]
    whole: bool = True
    born: int = 0


@dataclass(slots=True, eq=False)
class Mapping(Value):
    """A dict, or an object that is used like one.

    ``kind``: ``dict``; ``namespace`` (attributes only, as from argparse); ``config`` (both attributes and items, as
    OmegaConf, yacs and EasyDict give).
    """

    items: dict[Hashable, Value]
    kind: str = "dict"
    whole: bool = True
    born: int = 0
    origin: str = ""
    """The file in which it was read or declared."""
    sources: list[str] = field(default_factory=list)
    """Files that it may have been read from: the first with a requested key counts."""
    missing: dict[str, None] = field(default_factory=dict)
    """Missing attributes that were read."""


@dataclass(slots=True, eq=False)
class External(Value):
    """Something of an installed package or a builtin, by its dotted name."""

    name: str


@dataclass(slots=True, eq=False)
class Module(Value):
    """A module of the workspace: its file, or the folder of a package without ``__init__``."""

    file: str


@dataclass(slots=True, eq=False)
class Class(Value):
    """A class of the workspace; ``env`` are the names around one that a function defines."""

    symbol: Symbol
    env: Env | None = None


@dataclass(slots=True, eq=False)
class Function(Value):
    """A function, lambda or method of the workspace; ``receiver`` is the object that a method is bound to."""

    file: str
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    env: Env | None = None
    owner: Symbol | None = None
    receiver: Value | None = None
    defaults: dict[str, Value] | None = None
    """Of its parameters, where the definition was read: Python evaluates them there."""


@dataclass(slots=True, eq=False)
class Partial(Value):
    """A callable with some of its arguments."""

    function: Value
    args: list[Value]
    keywords: dict[str, Value]


@dataclass(slots=True, eq=False)
class Object(Value):
    """An instance of a class of the workspace, with its constructor's arguments."""

    kind: Class
    args: list[Value]
    keywords: dict[str, Value]
    fields: dict[str, Value] = field(default_factory=dict)
    born: int = 0
    place: tuple[str, int] = ("", 0)
    given: dict[str, Value] = field(default_factory=dict)
    """For a class with declared fields, such as a dataclass: those that it takes as arguments, with
    their values after construction."""
    changed: dict[str, Value] = field(default_factory=dict)
    """Attributes that code outside of the class has set."""


@dataclass(slots=True, eq=False)
class Apply(Value):
    """A call that is not evaluated: ``torch.randn(1, 3)``."""

    function: Value
    args: list[Value]
    keywords: dict[str, Value]


@dataclass(slots=True, eq=False)
class Attribute(Value):
    base: Value
    name: str


@dataclass(slots=True, eq=False)
class Item(Value):
    base: Value
    index: Value


@dataclass(slots=True, eq=False)
class Operation(Value):
    """An operator with an unknown operand; ``node`` has its form, ``operands`` the values of its parts."""

    node: ast.expr
    operands: list[Value]


@dataclass(slots=True, eq=False)
class Hole(Value):
    """An unknown value. ``name`` is its name in the text: an attribute, a key, a variable, a parameter."""

    name: str


@dataclass(slots=True, eq=False)
class Choice(Value):
    """One of several callables or models; the first is the usual one."""

    options: list[Value]


@dataclass(slots=True, eq=False)
class Tool(Value):
    """A supported library object (a parser, an open file), with its own ``state``."""

    kind: str
    state: Any
    born: int = 0


@dataclass(slots=True, eq=False)
class Method(Value):
    """A method of a value that is not an object of the workspace: ``"a,b".split``."""

    receiver: Value
    name: str


NONE = Const(None)


def literal(value: Value) -> Any:
    """The Python value, lists and dicts included.  Raises Unknown."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Sequence) and value.whole:
        made = {"list": list, "tuple": tuple, "set": set}[value.kind]
        try:
            return made(map(literal, value.items))
        except TypeError as error:
            raise Unknown from error
    if isinstance(value, Mapping) and value.whole and value.kind == "dict":
        return {key: literal(item) for key, item in value.items.items()}
    raise Unknown


def plain(value: Value) -> Any:
    """The known parts as plain data: unknown names of a mapping are omitted, other unknown values are None."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items.items() if isinstance(each, (Const, Mapping, Sequence))}
    if isinstance(value, Sequence):
        return [plain(each) for each in value.items]
    return value.value if isinstance(value, Const) else None


def added(into: list[Value], more: list[Value] | None) -> bool:
    """Adds known values, and returns whether it did: never more items than a model could take."""
    if more is None or len(into) + len(more) > MOST_TEXT:
        return False
    into += more
    return True


def lift(data: Any, born: int = 0) -> Value:
    """The description of a plain Python value. Raises Unknown for anything else, and for values that are too large."""
    if isinstance(data, (str, bytes)) and len(data) > MOST_TEXT:
        raise Unknown
    if isinstance(data, int) and data.bit_length() > MOST_TEXT:
        raise Unknown
    if isinstance(data, SCALARS):
        return Const(data)
    if isinstance(data, (list, tuple, set, frozenset, range)):
        kind = "tuple" if isinstance(data, tuple) else "set" if isinstance(data, (set, frozenset)) else "list"
        return Sequence(kind, [lift(each, born) for each in data], born=born)
    if isinstance(data, dict):
        return Mapping({key: lift(each, born) for key, each in data.items()}, born=born)
    raise Unknown


def truth(value: Value) -> bool | None:
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Sequence):
        return bool(value.items) or (None if not value.whole else False)
    if isinstance(value, Mapping):
        return True if value.kind == "namespace" or value.items else (None if not value.whole else False)
    if isinstance(value, (Class, Function, Module, Partial, Object, Choice, External, Tool)):
        return True
    return None


def is_known(value: Value) -> bool:
    """Whether it is neither a hole nor missing."""
    return not isinstance(value, Hole) and not (isinstance(value, Const) and value.value is None)


def parts(value: Value) -> Iterator[Value]:
    """The parts of a value, one level down."""
    if isinstance(value, Sequence):
        yield from value.items
    elif isinstance(value, Mapping):
        yield from value.items.values()
    elif isinstance(value, (Partial, Apply)):
        yield value.function
        yield from value.args
        yield from value.keywords.values()
    elif isinstance(value, Object):
        yield from value.args
        yield from value.keywords.values()
    elif isinstance(value, Attribute):
        yield value.base
    elif isinstance(value, Item):
        yield value.base
        yield value.index
    elif isinstance(value, Operation):
        yield from value.operands
    elif isinstance(value, Choice):
        yield from value.options[:1]
    elif isinstance(value, Method):
        yield value.receiver


def has_hole(value: Value, depth: int = 30) -> bool:
    return isinstance(value, Hole) or (depth > 0 and any(has_hole(part, depth - 1) for part in parts(value)))


def copied(value: Value, memo: dict[int, Value]) -> Value:
    """A copy of everything mutable, keeping aliases; the rest is shared."""
    if not isinstance(value, (Sequence, Mapping, Object, Tool, Choice, Partial)):
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    if isinstance(value, Sequence):
        made: Value = Sequence(value.kind, [], value.whole, value.born)
        memo[id(value)] = made
        made.items.extend(copied(each, memo) for each in value.items)  # type: ignore[attr-defined]
    elif isinstance(value, Mapping):
        made = Mapping({}, value.kind, value.whole, value.born, value.origin, value.sources, value.missing)
        memo[id(value)] = made
        made.items.update((key, copied(each, memo)) for key, each in value.items.items())  # type: ignore[attr-defined]
    elif isinstance(value, Object):
        made = Object(value.kind, [], {}, {}, value.born, value.place)
        memo[id(value)] = made
        made.args.extend(copied(each, memo) for each in value.args)  # type: ignore[attr-defined]
        for name in ("keywords", "fields", "given", "changed"):
            getattr(made, name).update((key, copied(each, memo)) for key, each in getattr(value, name).items())
    elif isinstance(value, Choice):
        made = memo[id(value)] = Choice([copied(each, memo) for each in value.options])
    elif isinstance(value, Partial):
        keywords = {key: copied(each, memo) for key, each in value.keywords.items()}
        made = memo[id(value)] = Partial(value.function, [copied(each, memo) for each in value.args], keywords)
    else:
        assert isinstance(value, Tool)
        made = memo[id(value)] = Tool(value.kind, value.state.copied(memo), value.born)
    return made
