"""Resolves a name in a file through imports, re-exports and stars to its definition, and tells which classes are
modules of torch, by the names of their bases."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fxlens.sources.targets import OTHER_FRAMEWORKS

from .embedded import EXAMPLES
from .facts import ClassFact, Facts, Scope
from .modules import Modules

_MODULE_BASES = re.compile(
    r"""(torch\.nn\.(?!functional|init|utils|Parameter)(modules\.)?[\w.]*[A-Z]\w*
    |torch\.jit\.ScriptModule|torch\.fx\.(graph_module\.)?GraphModule|fxlib\.GraphModule
    |(pytorch_lightning|lightning(\.pytorch|\.fabric|_fabric)?)(\.core(\.\w+)?)?\.(LightningModule|.*Module)
    |torchvision\.(models|ops)\.[\w.]*[A-Z]\w*|torchaudio\.(models|transforms)\.[\w.]*[A-Z]\w*
    |timm\.(models|layers)\.[\w.]*[A-Z]\w*
    |transformers\.[\w.]*[A-Z]\w*(Model|PreTrainedModel|For[A-Z]\w+|Attention|Layer|Encoder|Decoder|Embeddings|MLP)
    |torch_geometric\.nn\.[\w.]*[A-Z]\w*|torchtune\.modules\.[\w.]*[A-Z]\w*
    )$""",
    re.VERBOSE,
)
# Bases from unknown packages; these names are used for nothing else.
_MODULE_NAMES = re.compile(
    r"(^|\.)(nn\.Module|\w*(?<!Data)Module|LightningModule|\w*PreTrainedModel|\w*PretrainedModel|BaseModel3D|ModelMixin"
    r"|FairseqEncoder|FairseqDecoder|FairseqIncrementalDecoder|BaseFairseqModel|FairseqEncoderDecoderModel)$"
)


_MOST_BASES = 60


@dataclass(frozen=True, slots=True)
class Symbol:
    """Where a name is defined.

    ``kind``: ``class``, ``function``, ``value`` (assigned at module level), ``module`` (``file`` may be a folder), or
    ``external`` (``name`` is then the dotted name in an installed package, and ``file`` empty).
    """

    kind: str
    file: str
    name: str


class Symbols:
    """Lookups over the facts of all files. Results are cached until `forget`."""

    def __init__(self, facts: Mapping[str, Facts], modules: Modules) -> None:
        self.facts, self.modules = facts, modules
        self._classes: dict[str, dict[str, ClassFact]] = {}
        self._scopes: dict[str, dict[str, Scope]] = {}
        self._known: dict[tuple[str, str], Symbol | None] = {}
        self._modules: dict[tuple[str, str], bool] = {}
        self._bases: dict[tuple[str, str], tuple[Symbol, ...]] = {}
        self._orders: dict[tuple[str, str], tuple[Symbol, ...]] = {}

    def forget(self, path: str, shape: bool) -> None:
        """Handles changed facts of this file; ``shape``: also of its parts visible to other files."""
        self._classes.pop(path, None)
        self._scopes.pop(path, None)
        if shape:
            self._known.clear()
            self._modules.clear()
            self._bases.clear()
            self._orders.clear()

    # ---- what a file defines

    def classes(self, path: str) -> dict[str, ClassFact]:
        found = self._classes.get(path)
        if found is None:
            facts = self.facts.get(path)
            # Of two classes with one name in different branches, the first is used, as the usual case.
            found = self._classes[path] = {each.name: each for each in reversed(facts.classes)} if facts else {}
        return found

    def scopes(self, path: str) -> dict[str, Scope]:
        found = self._scopes.get(path)
        if found is None:
            facts = self.facts.get(path)
            found = self._scopes[path] = {each.name: each for each in reversed(facts.scopes)} if facts else {}
        return found

    # ---- what a name means

    def lookup(self, path: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Symbol | None:
        """The symbol of a module-level name of a file; None if unbound."""
        key = (path, name)
        if key in self._known:
            return self._known[key]
        if key in seen or len(seen) > 20:
            return None
        found = self._look(path, name, seen | {key})
        if not seen:
            self._known[key] = found
        return found

    def _look(self, path: str, name: str, seen: frozenset[tuple[str, str]]) -> Symbol | None:
        facts = self.facts.get(path)
        if facts is None:
            return Symbol("module", inner, name) if (inner := self.modules.submodule(path, name)) else None
        if name in self.classes(path):
            return Symbol("class", path, name)
        if name in self.scopes(path) and name:
            return Symbol("function", path, name)
        if name in facts.imports:
            return self._imported(path, facts.imports[name], seen)
        if name in facts.assigned:
            return Symbol("value", path, name)
        outside = None
        for module, level, _ in reversed(facts.stars):
            source = self.modules.resolve(path, level, module)
            if source is None:
                # The exports of an installed package are unknown; the name of a class is trusted.
                if outside is None and name[:1].isupper() and not level:
                    outside = Symbol("external", "", f"{module}.{name}")
            elif not name.startswith("_") and (found := self.lookup(source, name, seen)) is not None:
                return found
        if (inner := self.modules.submodule(path, name)) is not None:
            return Symbol("module", inner, name)
        if path.endswith(EXAMPLES):
            return self.lookup(path.removesuffix(EXAMPLES), name, seen)
        return outside

    def imported(self, path: str, what: tuple[str, int, str | None]) -> Symbol:
        """The symbol that an import statement in this file binds."""
        return self._imported(path, what, frozenset())

    def _imported(self, path: str, what: tuple[str, int, str | None], seen: frozenset[tuple[str, str]]) -> Symbol:
        module, level, name = what
        source = self.modules.resolve(path, level, module)
        if source is None:
            dotted = "." * level + module + (f".{name}" if name else "")
            return Symbol("external", "", dotted)
        if name is None:
            return Symbol("module", source, module)
        inner = self.modules.submodule(source, name)
        # `from . import layers` in a package: the module, unless the package binds the name itself.
        if source == path or source not in self.facts:
            found = None
        else:
            found = self.lookup(source, name, seen)
        if found is not None and not (found.kind == "value" and inner):
            return found
        if inner is not None:
            return Symbol("module", inner, name)
        return Symbol("external", "", f"{module}.{name}")

    def resolve(self, path: str, dotted: str, scope: str = "") -> Symbol | None:
        """The symbol of a dotted name in ``scope`` of the file (a qualified name; empty for the file)."""
        first, _, rest = dotted.partition(".")
        found = self._local(path, first, scope) or self.lookup(path, first)
        while rest and found is not None:
            first, _, rest = rest.partition(".")
            found = self.member(found, first)
        return found

    def member(self, owner: Symbol, name: str) -> Symbol | None:
        """An attribute of a symbol."""
        if owner.kind == "external":
            return Symbol("external", "", f"{owner.name}.{name}")
        if owner.kind == "module":
            return self.lookup(owner.file, name)
        if owner.kind == "class":
            for each in self.mro(owner):
                inner = f"{each.name}.{name}"
                if inner in self.classes(each.file):
                    return Symbol("class", each.file, inner)
                if inner in self.scopes(each.file):
                    return Symbol("function", each.file, inner)
        return None

    def _local(self, path: str, name: str, scope: str) -> Symbol | None:
        """A class or function that is defined in one of the scopes around."""
        while scope:
            for separator in (".<locals>.", "."):
                inner = f"{scope}{separator}{name}"
                if inner in self.classes(path):
                    return Symbol("class", path, inner)
                if inner in self.scopes(path):
                    return Symbol("function", path, inner)
            scope = scope.rpartition(".")[0].removesuffix(".<locals>")
        return None

    # ---- classes

    def bases(self, kind: Symbol) -> tuple[Symbol, ...]:
        """The bases of a class of the workspace, each resolved as far as it can be."""
        key = (kind.file, kind.name)
        if key not in self._bases:
            fact = self.classes(kind.file).get(kind.name)
            around = kind.name.rpartition(".")[0].removesuffix(".<locals>")
            found = []
            for base in fact.bases if fact else ():
                symbol = self.resolve(kind.file, base, around)
                if symbol is None or symbol.kind in ("value", "function"):
                    symbol = Symbol("external", "", base)
                if symbol != kind:
                    found.append(symbol)
            self._bases[key] = tuple(found)
        return self._bases[key]

    def subclasses(self, kind: Symbol) -> Iterator[Symbol]:
        """The classes of the workspace that derive from this one directly."""
        name = kind.name.rpartition(".")[2]
        for path, facts in self.facts.items():
            for each in facts.classes:
                below = Symbol("class", path, each.name)
                if any(base.rpartition(".")[2] == name for base in each.bases) and kind in self.bases(below):
                    yield below

    def mro(self, kind: Symbol) -> tuple[Symbol, ...]:
        """The class and its bases in the order in which Python looks for attributes, external ones included."""
        if kind.kind != "class":
            return (kind,)
        key = (kind.file, kind.name)
        if key not in self._orders:
            self._orders[key] = (kind,)  # for classes that are their own base, through an import
            bases = self.bases(kind)
            self._orders[key] = (kind, *_merged([*(list(self.mro(each)) for each in bases), list(bases)], kind))
        return self._orders[key]

    def is_module(self, kind: Symbol) -> bool:
        """Whether a class is a module of torch, by the names of its bases."""
        if kind.kind == "external":
            return is_module_name(kind.name)
        key = (kind.file, kind.name)
        if key not in self._modules:
            self._modules[key] = False  # for classes that are their own base, through an import
            fact = self.classes(kind.file).get(kind.name)
            forward = fact is not None and "forward" in fact.methods
            self._modules[key] = any(
                is_module_name(base.name) or (forward and _is_of_unknown_package(base.name))
                if base.kind == "external"
                else self.is_module(base)
                for base in self.bases(kind)
                if base.kind in ("external", "class")
            )
        return self._modules[key]

    def method(self, kind: Symbol, name: str) -> Symbol | None:
        """The function that a method's name means for a class of the workspace."""
        for each in self.mro(kind):
            if each.kind == "class" and f"{each.name}.{name}" in self.scopes(each.file):
                return Symbol("function", each.file, f"{each.name}.{name}")
        return None

    def module_classes(self, path: str) -> Iterator[ClassFact]:
        for name, fact in self.classes(path).items():
            if self.is_module(Symbol("class", path, name)):
                yield fact


def _merged(orders: list[list[Symbol]], kind: Symbol) -> Iterator[Symbol]:
    """One order of all: a class comes after no other one that follows it, as far as that is possible."""
    count = 0
    while (orders := [each for each in orders if each]) and count < _MOST_BASES:
        later = {each for order in orders for each in order[1:]}
        first = next((order[0] for order in orders if order[0] not in later), orders[0][0])
        orders = [[each for each in order if each != first] for order in orders]
        if first != kind:
            count += 1
            yield first


def _is_of_unknown_package(dotted: str) -> bool:
    """Whether a base comes from an unknown package: for a class with a forward, it then is a module."""
    package = dotted.partition(".")[0]
    known = package in sys.stdlib_module_names or package in OTHER_FRAMEWORKS or package == "torch"
    return "." in dotted and not known


def is_module_name(dotted: str) -> bool:
    """Whether a class of an installed package is a module of torch, by its name."""
    return bool(_MODULE_BASES.match(dotted) or _MODULE_NAMES.search(dotted))
