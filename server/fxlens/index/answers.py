"""What the workspace says about one class: how it is constructed and called, what contains and captures it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import captures
from .entries import entries, mentions
from .machine import Event
from .render import Renderer, Text, TooLong
from .runs import Entry
from .symbols import Symbol
from .values import Apply, Attribute, Choice, Class, Const, Function, Item, Object, Operation, Sequence, Value, parts
from .workspace import distance

if TYPE_CHECKING:
    from .index import Index

_MOST_ENTRIES = 10
_MOST_EXAMPLES = 6
_ENOUGH = 3


@dataclass(frozen=True)
class Example:
    """One way to construct a class, or to call what was constructed.

    ``text`` needs ``imports`` (`render.Import`, as plain lists) and, for ``holes``, whoever fills them.  ``sure`` is
    False for a branch that the defaults of the script do not take.  ``made`` is the construction that inputs belong
    to.
    """

    text: str
    file: str
    line: int
    imports: tuple[tuple[str, str, str | None], ...] = ()
    holes: tuple[str, ...] = ()
    sure: bool = True
    origins: tuple[str, ...] = ()
    made: str | None = None


@dataclass
class Answer:
    """All about one class.  ``captured`` says with what and where; ``aside`` why it looks like no model."""

    constructions: list[Example] = field(default_factory=list)
    inputs: list[Example] = field(default_factory=list)
    parents: list[tuple[str, str]] = field(default_factory=list)
    captured: list[tuple[str, str, int]] = field(default_factory=list)
    root: bool = False
    aside: str = ""


def answer(index: Index, kind: Symbol) -> Answer:
    """Reads the entry points that lead to a class, as far as is needed, and collects what happened to it."""
    found = Answer()
    parents: dict[Symbol, None] = {}
    made: list[tuple[Example, tuple[Any, ...]]] = []
    inputs: list[tuple[Example, tuple[Any, ...]]] = []
    texts: dict[int, str] = {}
    outside = False
    leading, naming = entries(index.workspace, kind)
    for at, entry in enumerate([*leading[:_MOST_ENTRIES], *naming[:_MOST_ENTRIES]]):
        if at >= min(len(leading), _MOST_ENTRIES) and made:
            break
        complete = [example for example, _ in made if not example.holes and example.sure]
        if len(complete) >= _ENOUGH and at >= _ENOUGH:
            break
        for event in index.run(entry).events:
            if event.kind == "construct" and event.what.symbol == kind:
                if event.holder is not None and event.holder != kind:
                    parents[event.holder] = None
                elif event.holder is None:
                    outside = True
                _add(made, _construction(index, kind, event), kind, event)
            elif event.kind == "call" and isinstance(event.what, Object) and event.what.kind.symbol == kind:
                _add(inputs, _inputs(index, kind, event), kind, event)
            elif event.kind == "construct":
                if any(kind in _kinds_in(each) for each in (*event.args, *event.keywords.values())):
                    parents[event.what.symbol] = None
            elif event.kind == "capture":
                for how, place in _captured(event, kind):
                    if (how, *place) not in found.captured:
                        found.captured.append((how, *place))
    del texts
    for holder in _written_parents(index, kind):
        parents[holder] = None
    parents.pop(kind, None)
    found.constructions = _best(made)
    found.inputs = _best(inputs)
    found.parents = [(each.file, each.name) for each in parents]
    found.root = outside and not parents
    return found


def _written_parents(index: Index, kind: Symbol) -> Iterator[Symbol]:
    """Module classes whose methods name the class."""
    for path, scope in mentions(index.workspace, kind):
        owner = scope.partition(".<locals>.")[0].rpartition(".")[0]
        holder = Symbol("class", path, owner)
        if owner and holder != kind and index.workspace.symbols.is_module(holder):
            yield holder


def _kinds_in(value: Value, depth: int = 6) -> Iterator[Symbol]:
    """Classes of the objects, and classes themselves, that a value consists of."""
    if isinstance(value, Object):
        yield value.kind.symbol
    elif isinstance(value, Class):
        yield value.symbol
    if depth and not isinstance(value, Apply):
        for part in parts(value):
            yield from _kinds_in(part, depth - 1)


def _captured(event: Event, kind: Symbol) -> Iterator[tuple[str, tuple[str, int]]]:
    how = captures.kind_of(event.what) or event.what
    for value in (*event.args[:1], *(event.keywords[n] for n in ("model", "root", "mod", "f") if n in event.keywords)):
        options = value.options if isinstance(value, Choice) else [value]
        if any(isinstance(each, Object) and each.kind.symbol == kind for each in options):
            yield how, event.place


def _construction(index: Index, kind: Symbol, event: Event) -> Example | None:
    try:
        text = Renderer(index.workspace.symbols, kind.file).construction(kind, event.args, event.keywords)
    except (TooLong, RecursionError):
        return None
    return _example(text, event)


def _inputs(index: Index, kind: Symbol, event: Event) -> Example | None:
    made = event.what
    symbols = index.workspace.symbols
    try:
        text = Renderer(symbols, kind.file).arguments(event.args, event.keywords)
        owner = Renderer(symbols, kind.file).construction(kind, made.args, made.keywords)
    except (TooLong, RecursionError):
        return None
    return _example(text, event, owner.text) if text.text else None


def _example(text: Text, event: Event, made: str | None = None) -> Example:
    imports = tuple((each.name, each.target, each.file) for each in text.imports)
    return Example(text.text, *event.place, imports, text.holes, event.sure, text.origins, made)


def _add(
    into: list[tuple[Example, tuple[Any, ...]]], example: Example | None, kind: Symbol, event: Event
) -> None:
    if example is None or any(each.text == example.text and each.made == example.made for each, _ in into):
        return
    key = (bool(example.holes), not event.sure, distance(kind.file, event.place[0]), len(example.holes), len(into))
    into.append((example, key))


def _best(found: list[tuple[Example, tuple[Any, ...]]]) -> list[Example]:
    return [example for example, _ in sorted(found, key=lambda each: each[1])[:_MOST_EXAMPLES]]


__all__ = ["Answer", "Attribute", "Const", "Entry", "Example", "Function", "Item", "Operation", "Sequence", "answer"]
