"""What the workspace says about one class: how it is constructed and called, what contains and captures it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import captures, inputs
from .embedded import EXAMPLES
from .entries import entries, mentions
from .machine import Event
from .render import Renderer, Text, TooLong
from .runs import Entry
from .symbols import Symbol
from .values import Apply, Choice, Class, Const, Object, Value, parts
from .workspace import distance

if TYPE_CHECKING:
    from .index import Index

_MOST_ENTRIES = 10
_MOST_EXAMPLES = 6
_ENOUGH = 3
_MOST_AT_PLACE = 3


@dataclass(frozen=True)
class Example:
    """One way to construct a class, or to call what was constructed.

    ``shown`` is ``text`` for people, with long tables left out.  ``text`` needs ``imports`` (`render.Import`, as plain lists) and, for ``holes``, whoever fills them.  ``sure`` is
    False for a branch that the defaults of the script do not take.  ``made`` is the construction that inputs belong
    to.
    """

    text: str
    shown: str
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
    given: list[tuple[Example, tuple[Any, ...]]] = []
    calls: list[tuple[str, int]] = []
    names = inputs.parameters(index.workspace, kind)
    outside = False
    leading, naming = entries(index.workspace, kind)
    tries = [leading[:_MOST_ENTRIES], naming[:_MOST_ENTRIES], [Entry(kind.file, f"{kind.name}.__init__")]]
    for at, entry in enumerate(entry for group in tries for entry in group):
        if made and (at >= len(tries[0]) and at - len(tries[0]) in (0, len(tries[1]))):
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
                if calls.count(event.place) < _MOST_AT_PLACE:
                    calls.append(event.place)
                    _add(given, _inputs(index, kind, event, names), kind, event)
            elif event.kind == "construct":
                if any(kind in _kinds_in(each) for each in (*event.args, *event.keywords.values())):
                    parents[event.what.symbol] = None
            elif event.kind == "capture":
                for how, place in _captured(event, kind):
                    if (how, *place) not in found.captured:
                        found.captured.append((how, *place))
    for holder in _written_parents(index, kind):
        parents[holder] = None
    parents.pop(kind, None)
    found.constructions = _best(made)
    found.inputs = _best(given)
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
        text = _renderer(index, kind).construction(kind, event.args, event.keywords)
        shown = _renderer(index, kind, brief=True).construction(kind, event.args, event.keywords)
    except (TooLong, RecursionError):
        return None
    return _example(text, shown, event)


def _inputs(index: Index, kind: Symbol, event: Event, names: list[str]) -> Example | None:
    given = inputs.usable(event.args, event.keywords, names)
    if given is None:
        return None
    made = event.what
    try:
        text = _renderer(index, kind).arguments(*given)
        shown = _renderer(index, kind, brief=True).arguments(*given)
        owner = _renderer(index, kind).construction(kind, made.args, made.keywords)
    except (TooLong, RecursionError):
        return None
    return _example(text, shown, event, owner.text) if text.text else None


def _renderer(index: Index, kind: Symbol, brief: bool = False) -> Renderer:
    return Renderer(index.workspace.symbols, kind.file, index.workspace.relative, brief=brief)


def _example(text: Text, shown: Text, event: Event, made: str | None = None) -> Example:
    imports = tuple((each.name, each.target, each.file) for each in text.imports)
    place = (event.place[0].removesuffix(EXAMPLES), event.place[1])
    return Example(text.text, shown.text, *place, imports, text.holes, event.sure, text.origins, made)


def _add(into: list[tuple[Example, tuple[Any, ...]]], example: Example | None, kind: Symbol, event: Event) -> None:
    if example is None or any(each.text == example.text and each.made == example.made for each, _ in into):
        return
    nothing = sum(isinstance(each, Const) and each.value is None for each in event.args)
    far = distance(kind.file, event.place[0])
    key = (bool(example.holes), bool(nothing), not event.sure, far, len(example.holes), len(into))
    into.append((example, key))


def _best(found: list[tuple[Example, tuple[Any, ...]]]) -> list[Example]:
    return [example for example, _ in sorted(found, key=lambda each: each[1])[:_MOST_EXAMPLES]]
