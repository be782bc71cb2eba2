"""The workspace's knowledge of one class: how it is constructed and called, what contains and captures it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fxlens.sources.notebook import place_of

from . import bounded, captures, inputs, matching, roles
from .embedded import EXAMPLES
from .entries import entries, mentions
from .machine import Event
from .render import Renderer, Text, TooLong
from .runs import Entry
from .symbols import Symbol
from .values import Const, Object
from .workspace import distance

if TYPE_CHECKING:
    from .index import Index

_MOST_ENTRIES = 10
_MOST_EXAMPLES = 6
_MOST_AT_PLACE = 3
_ENOUGH = 3
_SECONDS = 2.5  # for all readings of one class


@dataclass(frozen=True)
class Example:
    """One way to construct a class, or to call its instance.

    ``shown`` is ``text`` for display, without long tables. ``text`` needs ``imports`` (`render.Import`, as plain
    tuples), and its ``holes`` must be filled. ``sure`` is False for a branch that the script's defaults do not take,
    and for configurations that fit but are passed nowhere. ``made`` is the construction that inputs belong to.
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
    """All about one class.

    ``parents`` are classes that construct or receive it, as pairs of a file and a name; ``captured`` says how and
    where; ``root``: scripts construct it, and no other model contains it; ``aside``: why it does not look like a model
    (empty if it does).
    """

    constructions: list[Example] = field(default_factory=list)
    inputs: list[Example] = field(default_factory=list)
    parents: list[tuple[str, str]] = field(default_factory=list)
    captured: list[tuple[str, str, int]] = field(default_factory=list)
    root: bool = False
    aside: str = ""


def answer(index: Index, kind: Symbol) -> Answer:
    """Reads the entry points that lead to a class, as far as needed, and collects its events."""
    return _Search(index, kind, kind.file).answer()


def whole(index: Index, kind: Symbol, home: str) -> Answer | None:
    """A model whose construction is known (without arguments if it needs none), for a part of it in ``home``."""
    found = _Search(index, kind, home).answer()
    found.constructions = [each for each in found.constructions if not each.holes][:1]
    if not found.constructions:
        made = Renderer(index.workspace.symbols, home).construction(kind, [], {})
        fact = index.workspace.symbols.classes(kind.file).get(kind.name)
        if made.holes or fact is None:
            return None
        found.constructions.append(_example(made, made, (kind.file, fact.line), sure=True))
    found.inputs = [each for each in found.inputs if each.made == found.constructions[0].text]
    return found


class _Search:
    """The collecting of one answer."""

    def __init__(self, index: Index, kind: Symbol, home: str) -> None:
        self.index, self.kind, self.home = index, kind, home
        self.parameters = inputs.parameters(index.workspace, kind)
        self.made: list[tuple[Example, tuple[Any, ...]]] = []
        self.given: list[tuple[Example, tuple[Any, ...]]] = []
        self.calls: list[tuple[str, int]] = []
        self.owners: dict[Symbol, None] = {}
        self.holders: dict[Symbol, None] = {}
        self.alone: list[tuple[Entry, bool]] = []  # readings that construct it on its own, and whether surely
        self.found = Answer()

    def answer(self) -> Answer:
        found, kind, workspace = self.found, self.kind, self.index.workspace
        bounded.within(_SECONDS, self._read, None)
        for path, scope in mentions(workspace, kind):
            owner = Symbol("class", path, scope.partition(".<locals>.")[0].rpartition(".")[0])
            if owner.name and owner != kind and workspace.symbols.is_module(owner):
                self.owners[owner] = None
        for how, path, line in roles.decorated(workspace, kind):
            self._captured(how, (path, line))
        if not found.captured and not found.aside:
            self._look_beside()
        found.constructions, found.inputs = _best(self.made), _best(self.given)
        parents = [each for each in {**self.owners, **self.holders} if each != kind]
        found.parents = [(each.file, each.name) for each in parents if not roles.is_test(each.file)]
        found.root = any(sure and roles.is_script(entry, kind) for entry, sure in self.alone)
        found.root = found.root or (bool(self.alone) and not found.parents)
        found.aside = found.aside or roles.aside_by_name(kind, self.parameters)
        if found.aside:
            found.root = False
        return found

    def _read(self) -> None:
        """Reads what leads to the class. What is found by the time that is left counts."""
        for entry in self._entries():
            run = self.index.run(entry)
            for event in run.events:
                self._take(event)
            if roles.is_test(entry.file) <= roles.is_test(self.kind.file) and roles.alone(run, self.kind, sure=False):
                self.alone.append((entry, roles.alone(run, self.kind)))

    def _entries(self) -> Iterator[Entry]:
        leading, naming = entries(self.index.workspace, self.kind)
        for at, entry in enumerate(leading[:_MOST_ENTRIES]):
            complete = [example for example, _ in self.made if not example.holes and example.sure]
            if len(complete) >= _ENOUGH and at >= _ENOUGH:
                return
            yield entry
        if not self.made:
            yield from naming[:_MOST_ENTRIES]
        if not self.made:
            yield Entry(self.kind.file, f"{self.kind.name}.__init__")

    def _take(self, event: Event) -> None:
        kind = self.kind
        if event.kind == "construct":
            if event.what.symbol == kind:
                if event.holder is not None and event.holder != kind:
                    self.owners[event.holder] = None
                args, keywords = matching.filled(self.index.workspace, event, kind.file)
                as_it_is = args == event.args and keywords == event.keywords
                event = replace(event, args=args, keywords=keywords, sure=event.sure and as_it_is)
                self._add(self.made, self._construction(event), event)
            elif kind in event.inside:
                self.holders[event.what.symbol] = None
        elif event.kind == "base":
            if event.what.symbol == kind:
                self._add(self.made, self._construction(replace(event, sure=False)), replace(event, sure=False))
        elif event.kind == "factory":
            if event.what.receiver.symbol == kind:
                self._add(self.made, self._construction(event, event.what.name.rpartition(".")[2]), event)
        elif event.kind == "call":
            if isinstance(event.what, Object) and event.what.kind.symbol == kind:
                self.calls.append(event.place)
                if self.calls.count(event.place) <= _MOST_AT_PLACE:
                    self._add(self.given, self._inputs(event), event)
            aside = (self.index.workspace, event, kind, self.parameters)
            if not self.found.aside and event.sure and roles.aside(*aside):
                self.found.aside = f"called at {self._place(event)}"
        elif event.kind == "capture" and roles.captured(event, kind):
            self._captured(captures.kind_of(event.what) or event.what, event.place)

    def _captured(self, how: str, place: tuple[str, int]) -> None:
        if (how, *place) not in self.found.captured:
            self.found.captured.append((how, *place))

    def _look_beside(self) -> None:
        """A model that a script loads from a file and captures may be of any class that the script names."""
        for entry in roles.beside_unknown(self.index.workspace, self.kind):
            for event in self.index.run(entry).events:
                if roles.captures_unknown(event) and event.place[0] == entry.file:
                    self._captured(captures.kind_of(event.what) or event.what, event.place)

    def _place(self, event: Event) -> str:
        file, line = place_of(*event.place, self.kind.file)
        name = self.index.workspace.label(file)
        return name if line is None else f"{name}:{line}"

    # ---- examples

    def _construction(self, event: Event, method: str | None = None) -> Example | None:
        try:
            text = self._renderer().construction(self.kind, event.args, event.keywords, method)
            shown = self._renderer(brief=True).construction(self.kind, event.args, event.keywords, method)
        except (TooLong, RecursionError):
            return None
        return _example(text, shown, event.place, event.sure)

    def _inputs(self, event: Event) -> Example | None:
        given = inputs.usable(event.args, event.keywords, self.parameters)
        if given is None:
            return None
        made = event.what
        try:
            text = self._renderer().arguments(*given)
            shown = self._renderer(brief=True).arguments(*given)
            owner = self._renderer().construction(self.kind, made.args, made.keywords)
        except (TooLong, RecursionError):
            return None
        return _example(text, shown, event.place, event.sure, owner.text) if text.text else None

    def _renderer(self, brief: bool = False) -> Renderer:
        workspace = self.index.workspace
        return Renderer(workspace.symbols, self.home, workspace.relative, brief=brief)

    def _add(self, into: list[tuple[Example, tuple[Any, ...]]], example: Example | None, event: Event) -> None:
        if example is None or any(each.text == example.text and each.made == example.made for each, _ in into):
            return
        nothing = sum(isinstance(each, Const) and each.value is None for each in event.args)
        far = distance(self.kind.file, event.place[0])
        key = (bool(example.holes), bool(nothing), not event.sure, far, len(example.holes), len(into))
        into.append((example, key))


def _example(text: Text, shown: Text, place: tuple[str, int], sure: bool, made: str | None = None) -> Example:
    imports = tuple((each.name, each.target, each.file) for each in text.imports)
    file = place[0].removesuffix(EXAMPLES)
    return Example(text.text, shown.text, file, place[1], imports, text.holes, sure, text.origins, made)


def _best(found: list[tuple[Example, tuple[Any, ...]]]) -> list[Example]:
    return [example for example, _ in sorted(found, key=lambda each: each[1])[:_MOST_EXAMPLES]]
