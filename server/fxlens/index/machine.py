"""The state of one reading of a script: bindings so far, their certainty, and events.

`statements`, `branches`, `expressions`, `operators`, `calls` and `objects` each add the part of the interpreter in
their name; they use each other only through the methods declared here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from . import values as v
from . import ways
from .symbols import Symbol, Symbols

MOST_STEPS = 50_000
MOST_DEPTH = 14
MOST_ITEMS = 512
_DEEPEST = 6
SYMBOLIC = (v.Apply, v.Attribute, v.Item, v.Operation)
"""Unknown values whose expression is kept."""
PLAIN_ERRORS = (TypeError, ValueError, ArithmeticError, KeyError, IndexError, AttributeError, RecursionError)
"""Exceptions from computing with known values."""


class Names(dict[str, Any]):
    """The names of a scope, with those of the function around it. A value may still be a `Symbol`, which is resolved
    when the name is read."""

    __slots__ = ("outer",)

    def __init__(self, outer: Names | None = None) -> None:
        super().__init__()
        self.outer = outer


@dataclass
class Frame:
    """A function or file that is being read."""

    file: str
    name: str
    names: Names
    receiver: v.Value | None = None
    owner: Symbol | None = None
    returned: list[v.Value] = field(default_factory=list)
    line: int = 0
    elsewhere: dict[str, Names] = field(default_factory=dict)
    """The scopes of names that are declared ``global`` or ``nonlocal``."""
    guarded: int = 0
    """The number of its enclosing ``try`` that handle a missing attribute."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a model.

    ``kind``: ``construct`` (of class ``what``), ``base`` (of a subclass, which passes these arguments to ``what``),
    ``factory`` (``what`` is the class method that returned an instance), ``call`` (``what`` is the object), ``capture``
    (``what`` is the callee's dotted name). ``holder`` is the class whose ``__init__`` constructs it. ``sure`` is False
    in a branch that the defaults do not take.
    """

    kind: str
    what: Any
    args: list[v.Value]
    keywords: dict[str, v.Value]
    place: tuple[str, int]
    sure: bool = True
    holder: Symbol | None = None
    no_grad: bool = False
    depth: int = 0

    @cached_property
    def inside(self) -> frozenset[Symbol]:
        """Classes among, or of the objects among, a construction's arguments.  Each class of a folder asks for them."""
        found: set[Symbol] = set()
        stack = [(each, _DEEPEST) for each in (*self.args, *self.keywords.values())]
        while stack:
            value, left = stack.pop()
            if isinstance(value, v.Object):
                found.add(value.kind.symbol)
            elif isinstance(value, v.Class):
                found.add(value.symbol)
            if left and not isinstance(value, v.Apply):
                stack += [(part, left - 1) for part in v.parts(value)]
        return frozenset(found)


class Exhausted(Exception):
    """The reading took too many steps."""


class Workspace(Protocol):
    """The interface of the index for the interpreter."""

    root: str
    symbols: Symbols
    configuration_files: set[str]

    def tree(self, path: str) -> ast.Module | None: ...
    def node(self, path: str, name: str) -> Any: ...
    def base_names(self, path: str) -> tuple[Names, set[str]]: ...
    def interesting(self, node: ast.AST) -> bool: ...
    def registered(self, home: str, name: str) -> dict[str, Symbol]: ...
    def named(self, name: str) -> list[Symbol]: ...
    def configuration(self, path: str) -> Any: ...
    def configurations(self, near: str, suffixes: tuple[str, ...]) -> list[str]: ...
    def registries(self, path: str) -> list[str]: ...
    def keys_of(self, symbol: Symbol) -> set[str]: ...
    def text(self, path: str) -> str | None: ...
    def raw(self, path: str) -> str | None: ...
    def settings(self, near: str) -> list[tuple[v.Value, tuple[str, int]]]: ...
    def declared(self, near: str, wanted: set[str]) -> list[tuple[v.Mapping, tuple[str, int]]]: ...


class Machine:
    """One reading.  ``files`` are the files that it depended on."""

    def __init__(self, workspace: Workspace, steps: int = MOST_STEPS) -> None:
        self.workspace = workspace
        self.symbols = workspace.symbols
        self.files: set[str] = set()
        self.events: list[Event] = []
        self.steps = steps
        self.floor = 0
        self.frames: list[Frame] = []
        self.settings: list[tuple[v.Value, tuple[str, int]]] = []  # configurations found
        self.modules: dict[str, Names] = {}
        self.class_names: dict[Symbol, Names] = {}
        self.made: dict[tuple[Symbol, str], dict[str, v.Value]] = {}
        self.clock = 0
        self.ways: list[ways.Way] = []  # the enclosing parts that may not be executed
        self.sure = True
        self.dead = 0  # the number of those that are not executed
        self.no_grad = 0
        self._memo: dict[int, v.Value] = {}

    # ---- the other parts

    def value(self, node: ast.expr) -> v.Value:
        raise NotImplementedError

    def block(self, body: list[ast.stmt]) -> str | None:
        raise NotImplementedError

    def call(self, function: v.Value, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        raise NotImplementedError

    def construct(self, kind: v.Class, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        raise NotImplementedError

    def attribute(self, base: v.Value, name: str) -> v.Value:
        raise NotImplementedError

    def miss(self, owner: v.Value, name: str) -> None:
        raise NotImplementedError

    def item(self, base: v.Value, index: v.Value) -> v.Value:
        raise NotImplementedError

    def items_of(self, value: v.Value) -> list[v.Value] | None:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: v.Value) -> None:
        raise NotImplementedError

    def set_attribute(self, base: v.Value, name: str, value: v.Value) -> None:
        raise NotImplementedError

    def set_item(self, base: v.Value, index: v.Value, value: v.Value) -> None:
        raise NotImplementedError

    def binary(self, node: ast.expr, op: ast.operator, left: v.Value, right: v.Value) -> v.Value:
        raise NotImplementedError

    def compared(self, op: ast.cmpop, left: v.Value, right: v.Value) -> v.Value:
        raise NotImplementedError

    def either(self, first: v.Value, second: v.Value) -> v.Value:
        raise NotImplementedError

    def invoke(self, function: v.Function, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        raise NotImplementedError

    def call_method(self, owner: v.Value, method: Symbol, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
        raise NotImplementedError

    def call_super(self, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
        raise NotImplementedError

    def call_object(
        self, owner: v.Object, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        raise NotImplementedError

    def method_of_model(
        self, owner: v.Object, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr
    ) -> v.Value:
        raise NotImplementedError

    def attribute_of_code(self, base: v.Value, name: str) -> v.Value:
        """An attribute of a class, function or object of the workspace."""
        raise NotImplementedError

    def class_names_of(self, kind: v.Class) -> Names:
        raise NotImplementedError

    # ---- names

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def step(self, node: Any) -> None:
        self.steps -= 1
        if self.steps < self.floor:
            raise Exhausted

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def names_of(self, path: str) -> Names:
        """The names of a module for this reading: a copy, so that it may change them."""
        names = self.modules.get(path)
        if names is None:
            base, files = self.workspace.base_names(path)
            self.files |= files
            names = self.modules[path] = Names()
            for name, value in base.items():
                names[name] = v.copied(value, self._memo) if isinstance(value, v.Value) else value
            for name in self.workspace.registries(path):
                if isinstance(names.get(name), v.Value):
                    self.fill(path, name, names[name])
        return names

    def fill(self, path: str, name: str, registry: v.Value) -> None:
        """Puts objects registered by decorators into the registry's dict."""
        self.files.add("*")
        table = self.workspace.registered(path, name)
        inner = list(registry.fields.values()) if isinstance(registry, v.Object) else [registry]
        for each in inner:
            if isinstance(each, v.Mapping) and not each.items:
                each.items.update((key, self.value_of(symbol)) for key, symbol in table.items())
                each.kind = "dict"

    def read_name(self, name: str) -> v.Value | None:
        """The value of a name here; None if unbound."""
        names: Names | None = self.frame.elsewhere.get(name, self.frame.names)
        while names is not None:
            if name in names:
                found = names[name]
                if isinstance(found, Symbol):
                    found = names[name] = self.value_of(found)
                return found
            names = names.outer
        return self.module_name(self.frame.file, name)

    def module_name(self, path: str, name: str) -> v.Value | None:
        names = self.modules.get(path)
        if names is not None and name in names:
            found = names[name]
            if isinstance(found, Symbol):
                found = names[name] = self.value_of(found)
            return found
        symbol = self.symbols.lookup(path, name)
        return None if symbol is None else self.value_of(symbol)

    def value_of(self, symbol: Symbol) -> v.Value:
        self.files.add(symbol.file)
        if symbol.kind == "external":
            return v.External(symbol.name)
        if symbol.kind == "module":
            return v.Module(symbol.file)
        if symbol.kind == "class":
            return v.Class(symbol)
        if symbol.kind == "function":
            node = self.workspace.node(symbol.file, symbol.name)
            return v.Hole(symbol.name) if node is None else v.Function(symbol.file, symbol.name, node)
        found = self.names_of(symbol.file).get(symbol.name)
        if isinstance(found, Symbol):
            return self.value_of(found) if found != symbol else v.Hole(symbol.name)
        return v.Hole(symbol.name) if found is None else found

    def known_items(self, value: v.Value) -> list[v.Value]:
        """What iterating over it gives. Raises Unknown."""
        items = self.items_of(value)
        if items is None:
            raise v.Unknown
        return items

    # ---- how sure

    def changes(self, owner: v.Value | Names) -> None:
        """Called before a value changes, or a name of a scope other than the current one."""
        born = getattr(owner, "born", 0)
        for way in reversed(self.ways):
            if born > way.born or not way.remember(owner):
                return

    def forget(self, owner: v.Sequence | v.Mapping) -> None:
        """After an unknown change of a list or dict."""
        self.changes(owner)
        owner.items.clear()
        owner.whole = False

    @contextmanager
    def way(self, undone: bool = True) -> Iterator[ways.Way]:
        """For what may not be executed, or not once. Unless ``undone`` is False, nothing of it holds afterwards; apply
        its ``after`` for that."""
        way = ways.Way(self.tick())
        way.remember(self.frame.names)
        self.ways.append(way)
        try:
            yield way
        finally:
            self.ways.pop()
            if undone:
                way.undo()

    @contextmanager
    def not_taken(self) -> Iterator[ways.Way]:
        """For a branch that known values do not take, read only for its constructions."""
        returned = list(self.frame.returned)
        self.dead += 1
        try:
            with self.way() as way:
                yield way
        finally:
            self.dead -= 1
            self.frame.returned[:] = returned

    def chosen(self, name: Any, one: v.Value, other: v.Value) -> v.Value:
        """The value of a name to which two ways give these."""
        return self.either(one, other)

    # ---- what happened

    def note(self, kind: str, what: Any, args: list[v.Value], keywords: dict[str, v.Value], node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            return  # the start of an entry point, not a call in the workspace
        memo: dict[int, v.Value] = {}
        self.events.append(
            Event(
                kind,
                v.copied(what, memo) if isinstance(what, v.Value) else what,
                [v.copied(each, memo) for each in args],
                {name: v.copied(each, memo) for name, each in keywords.items()},
                (self.frame.file, getattr(node, "lineno", self.frame.line)),
                self.sure and not self.dead,
                self.holder(),
                self.no_grad > 0,
                len(self.frames),
            )
        )

    def met(self, value: v.Value) -> v.Value:
        """Records a configuration that a script gets from its command line or a file."""
        if not self.frames or not self.dead:
            self.settings.append((value, (self.frame.file, self.frame.line)))
        return value

    def holder(self) -> Symbol | None:
        """The innermost module class whose method is being read."""
        for frame in reversed(self.frames):
            if isinstance(frame.receiver, v.Object) and self.symbols.is_module(frame.receiver.kind.symbol):
                return frame.receiver.kind.symbol
        return None

    # ---- making

    def new_list(self, items: list[v.Value], kind: str = "list", whole: bool = True) -> v.Sequence:
        return v.Sequence(kind, items, whole, self.tick())

    def new_set(self, items: list[v.Value], whole: bool = True) -> v.Sequence:
        """Of known items each once. How many there are of others is unknown."""
        try:
            known = {each: v.Const(each) for each in map(v.literal, items)}
            return self.new_list(list(known.values()), "set", whole)
        except (v.Unknown, TypeError):
            return self.new_list(items, "set", whole and len(items) == 1)

    def new_dict(
        self, items: dict[Any, v.Value], kind: str = "dict", whole: bool = True, origin: str = ""
    ) -> v.Mapping:
        return v.Mapping(items, kind, whole, self.tick(), origin)

    def new_tool(self, kind: str, state: Any) -> v.Tool:
        return v.Tool(kind, state, self.tick())
