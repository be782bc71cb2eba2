"""The workspace for the interpreter: trees, module names, registered classes, configuration files."""

from __future__ import annotations

import ast
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from . import bounded, captures, configured, documents, embedded, files, runs
from .definitions import definitions_of
from .facts import Facts
from .machine import Names
from .modules import Modules
from .symbols import Symbol, Symbols
from .values import Mapping, Value, plain

_MOST_TREES = 96
_SECONDS = 1.0  # for one configuration file
_LEAST_NAMES, _MOST_BASES = 3, 4  # of a configuration in Python
_PLAIN_DECORATORS = {
    "property", "staticmethod", "classmethod", "dataclass", "abstractmethod", "no_grad", "wraps", "lru_cache", "cache",
    "cached_property", "setter", "fixture", "parametrize", "overload", "contextmanager", "script", "compile", "jit",
    "inference_mode", "option", "command", "main", "deprecated", "autocast", "total_ordering", "skipif", "skip", "slow",
    "getter", "override", "final", "export", "ignore", "unused", "custom_fwd", "custom_bwd", "group", "argument",
}  # fmt: skip
_CONFIG_FOLDERS = ("conf", "config", "configs", "cfg", "cfgs", "options", "option", "hparams", "params", "experiments")
_NO_CONFIGURATION = {
    "package.json", "package-lock.json", "tsconfig.json", "mkdocs.yml", "environment.yml", "environment.yaml",
    "pyproject.toml", "docker-compose.yml", "codecov.yml", "cog.yaml", "action.yml", "fxlens.toml",
    "fxlens.examples.toml", "tokenizer.json", "vocab.json", "special_tokens_map.json", "__init__.py", "setup.py",
}  # fmt: skip


class Workspace:
    """Facts of all files, and derived data, which is dropped when it may have changed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.facts: dict[str, Facts] = {}
        self.overlays: dict[str, str] = {}
        self.configuration_files: set[str] = set()
        self.modules = Modules(root)
        self.symbols = Symbols(self.facts, self.modules)
        self._by_name: dict[str, set[str]] = {}  # name read -> files
        self._by_class: dict[str, set[str]] = {}  # last name of a class -> files
        self._by_type: dict[str, set[str]] = {}  # name that a configuration gives as a type -> files
        self._typed: dict[str, set[str]] = {}  # configuration file -> such names
        self._trees: OrderedDict[str, ast.Module | None] = OrderedDict()
        self._nodes: dict[str, dict[str, ast.AST]] = {}
        self._names: dict[str, tuple[Names, set[str]]] = {}
        self._reading: set[str] = set()
        self._data: dict[str, Any] = {}
        self._tables: dict[tuple[str, str], dict[str, Symbol]] | None = None
        self._keys: dict[Symbol, set[str]] = {}
        self._home_of: dict[Symbol, list[Symbol]] = {}
        self._interesting: set[str] | None = None
        self._otherwise: dict[str, dict[str, set[str]]] | None = None
        self.settings: Callable[[str], list[tuple[Value, tuple[str, int]]]] = lambda near: []
        """Returns configurations of scripts near a file; set by the index, which reads the scripts."""
        self.declared: Callable[[str, set[str]], list[tuple[Mapping, tuple[str, int]]]] = lambda near, wanted: []
        """Returns configurations that classes declare, by wanted names; set by the index, too."""
        self._near: dict[tuple[str, tuple[str, ...]], list[str]] = {}

    # ---- facts

    def put(self, path: str, facts: Facts | None) -> bool:
        """Replaces a file's facts (None: it was deleted). Returns whether other files see a difference."""
        examples, inner = path + embedded.EXAMPLES, facts.examples if facts else None
        if inner is not None or examples in self.facts:
            return self._put(examples, inner) | self._put(path, facts)
        return self._put(path, facts)

    def _put(self, path: str, facts: Facts | None) -> bool:
        if facts is not None and not (facts.scopes and facts.scopes[0].names) and path.endswith((".md", ".ipynb")):
            facts = None  # no Python in it
        old = self.facts.get(path)
        for name, where in self._indexed(old):
            holders = where.get(name)
            if holders is not None:
                holders.discard(path)
                if not holders:
                    del where[name]
        if facts is None:
            self.facts.pop(path, None)
            self.modules.discard(path)
        else:
            self.facts[path] = facts
            if path.endswith(".py"):
                self.modules.add(path)
            for name, where in self._indexed(facts):
                where.setdefault(name, set()).add(path)
        self._set_configuration(path, facts is not None and _sets_names(path, facts))
        shape = old is None or facts is None or old.shape() != facts.shape()
        self.symbols.forget(path, shape)
        self._trees.pop(path, None)
        self._nodes.pop(path, None)
        if shape:
            self._tables = self._otherwise = None
            self._names.clear()
        else:
            self._names = {key: each for key, each in self._names.items() if path not in each[1]}
        self._interesting = None
        return shape

    def put_configuration(self, path: str, exists: bool) -> None:
        """Handles a new, changed or deleted configuration file."""
        for name in self._typed.pop(path, ()):
            self._by_type[name].discard(path)
        text = (self.overlays.get(path) or files.read(path)) if exists else None
        if text is not None:
            self._typed[path] = bounded.within(_SECONDS, lambda: configured.names_in(text), set())
            for name in self._typed[path]:
                self._by_type.setdefault(name, set()).add(path)
        self._set_configuration(path, exists)
        self._names = {key: each for key, each in self._names.items() if path not in each[1]}

    def _set_configuration(self, path: str, exists: bool) -> None:
        if exists != (path in self.configuration_files):
            (self.configuration_files.add if exists else self.configuration_files.discard)(path)
            self._near.clear()
        self._data.pop(path, None)

    def _indexed(self, facts: Facts | None) -> Iterator[tuple[str, dict[str, set[str]]]]:
        if facts is not None:
            for name in facts.read_names():
                yield name, self._by_name
            for name in facts.typed:
                yield name, self._by_type
            for kind in facts.classes:
                yield kind.name.rpartition(".")[2], self._by_class

    def text(self, path: str) -> str | None:
        """The Python text of a file, of the open document if there is one."""
        text = self.raw(path.removesuffix(embedded.EXAMPLES))
        return embedded.code(path, text) if text is not None else None

    def raw(self, path: str) -> str | None:
        """The content of a file, or of an open document."""
        text = self.overlays.get(path)
        return files.read(path) if text is None else text

    # ---- trees

    def tree(self, path: str) -> ast.Module | None:
        if path in self._trees:
            self._trees.move_to_end(path)
            return self._trees[path]
        text = self.text(path) if path in self.facts else None
        tree = None
        if text is not None:
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                tree = None
        self._trees[path] = tree
        while len(self._trees) > _MOST_TREES:
            gone, _ = self._trees.popitem(last=False)
            self._nodes.pop(gone, None)
        return tree

    def node(self, path: str, name: str) -> Any:
        """The statement that defines a class or function, by its qualified name."""
        tree = self.tree(path)
        if path not in self._nodes:
            self._nodes[path] = definitions_of(tree) if tree is not None else {}
        return self._nodes[path].get(name)

    def base_names(self, path: str) -> tuple[Names, set[str]]:
        found = self._names.get(path)
        if found is None:
            if path in self._reading:  # modules that import each other
                return Names(), {path}
            self._reading.add(path)
            try:
                found = runs.module_names(self, path)
            finally:
                self._reading.discard(path)
            self._names[path] = found
        return found

    # ---- names

    def readers(self, name: str) -> set[str]:
        """Files that read this name."""
        return self._by_name.get(name, set())

    def named_otherwise(self, name: str) -> dict[str, set[str]]:
        """Files that import this name under another one, with the latter: ``from nets import build as build_net``."""
        if self._otherwise is None:
            self._otherwise = {}
            for path, facts in self.facts.items():
                for bound, (_, _, source) in (*facts.imports.items(), *facts.also):
                    if source is not None and bound != source:
                        self._otherwise.setdefault(source, {}).setdefault(path, set()).add(bound)
        return self._otherwise.get(name, {})

    def configuring(self, symbol: Symbol) -> list[str]:
        """Files with a configuration that names this class, by its own name or by one that it is registered under;
        those that only override another one come last."""

        def order(path: str) -> tuple[bool, int, str]:
            facts = self.facts.get(path)
            return facts is not None and "_base_" in facts.assigned, distance(symbol.file, path), path

        return sorted({path for key in self.keys_of(symbol) for path in self._by_type.get(key, ())}, key=order)

    def keys_of(self, symbol: Symbol) -> set[str]:
        """The names that configurations may use for a class."""
        self._all_registered()
        return {symbol.name.rpartition(".")[2], *self._keys.get(symbol, ())}

    def named(self, name: str) -> list[Symbol]:
        """Classes of this name, modules first."""
        found = [
            Symbol("class", path, kind)
            for path in sorted(self._by_class.get(name, ()))
            for kind in self.symbols.classes(path)
            if kind.rpartition(".")[2] == name and "<locals>" not in kind
        ]
        return sorted(found, key=lambda symbol: not self.symbols.is_module(symbol))

    def interesting(self, node: ast.AST) -> bool:
        """Whether a branch names a model, or something that makes or captures one."""
        names = getattr(node, "_fxlens_names", None)
        if names is None:
            names = frozenset(
                part.id if isinstance(part, ast.Name) else part.attr
                for part in ast.walk(node)
                if isinstance(part, (ast.Name, ast.Attribute))
            )
            node._fxlens_names = names  # type: ignore[attr-defined]
        if self._interesting is None:
            self._interesting = self._interesting_names()
        return not self._interesting.isdisjoint(names)

    def _interesting_names(self) -> set[str]:
        found = set(captures.NAMES)
        for path in self.facts:
            found.update(kind.name.rpartition(".")[2] for kind in self.symbols.module_classes(path))
        models = set(found)
        for facts in self.facts.values():
            for scope in facts.scopes:
                if scope.name and any(name.rpartition(".")[2] in models for name in scope.names):
                    short = scope.name.rpartition(".")[2]
                    if not short.startswith("__") and short not in ("forward", "main"):
                        found.add(short)
        return found

    # ---- registries

    def registered(self, home: str, name: str) -> dict[str, Symbol]:
        """Classes and functions that decorators enter in the table ``name`` of the file ``home``, by key."""
        return self._all_registered().get((home, name), {})

    def homes(self, symbol: Symbol) -> list[Symbol]:
        """The tables that a class or function is entered in."""
        self._all_registered()
        return self._home_of.get(symbol, [])

    def registries(self, path: str) -> list[str]:
        return [name for home, name in self._all_registered() if home == path]

    def _all_registered(self) -> dict[tuple[str, str], dict[str, Symbol]]:
        if self._tables is not None:
            return self._tables
        found: dict[tuple[str, str], dict[str, Symbol]] = {}
        behind: dict[Symbol, list[tuple[str, str]]] = {}
        for path in sorted(self.facts):
            facts = self.facts[path]
            entries = [("class", kind.name, kind.decorators) for kind in facts.classes]
            entries += [("function", scope.name, scope.decorators) for scope in facts.scopes if "." not in scope.name]
            for kind, name, decorators in entries:
                for decorator, key in decorators:
                    if decorator.rpartition(".")[2] in _PLAIN_DECORATORS:
                        continue
                    for home in self._homes(path, decorator, behind):
                        found.setdefault(home, {})[key or name.rpartition(".")[2]] = Symbol(kind, path, name)
        self._tables, self._keys, self._home_of = found, {}, {}
        for (where, table_name), table in found.items():
            sort = "class" if table_name in self.symbols.classes(where) else "value"
            for key, symbol in table.items():
                self._keys.setdefault(symbol, set()).add(key)
                self._home_of.setdefault(symbol, []).append(Symbol(sort, where, table_name))
        return found

    def _homes(self, path: str, decorator: str, behind: dict[Symbol, list[tuple[str, str]]]) -> list[tuple[str, str]]:
        symbol = self.symbols.resolve(path, decorator)
        owner, _, _ = decorator.rpartition(".")
        if symbol is None and owner:
            symbol = self.symbols.resolve(path, owner)
        if symbol is None or symbol.kind in ("external", "module"):
            return []
        if symbol.kind == "class":
            return [(symbol.file, symbol.name)]
        if symbol.kind == "value":
            return [(symbol.file, symbol.name)]
        if "." in symbol.name:  # a method of a class that is the registry itself
            return [(symbol.file, symbol.name.rpartition(".")[0])]
        if symbol not in behind:
            node = self.node(symbol.file, symbol.name)
            assigned = self.facts[symbol.file].assigned
            stores = (
                [
                    part.value.id
                    for part in ast.walk(node)
                    if node is not None
                    if isinstance(part, ast.Subscript)
                    and isinstance(part.ctx, ast.Store)
                    and isinstance(part.value, ast.Name)
                ]
                if node is not None
                else []
            )
            behind[symbol] = [(symbol.file, name) for name in dict.fromkeys(stores) if name in assigned]
        return behind[symbol]

    # ---- configuration files

    def configuration(self, path: str) -> Any:
        """The data of a configuration file of the workspace; None if there is none."""
        path = os.path.normpath(path)
        if path not in self.configuration_files:
            return None
        if path.endswith(".py"):
            return self._set_in(path)
        if path not in self._data:
            text = self.overlays.get(path) or files.read(path)
            self._data[path] = None
            if text is not None:
                self._data[path] = bounded.within(_SECONDS, lambda: documents.parse(path, text), None)
        return self._data[path]

    def _set_in(self, path: str, further: int = _MOST_BASES) -> dict[str, Any]:
        """The names and values of a configuration in Python, with those of the files in ``_base_``."""
        names = self.base_names(path)[0]
        data = plain(Mapping({name: each for name, each in names.items() if isinstance(each, Value)}))
        bases = data.pop("_base_", None)
        for base in reversed([bases] if isinstance(bases, str) else bases or ()):
            place = os.path.normpath(os.path.join(os.path.dirname(path), str(base)))
            if further and place in self.configuration_files and place.endswith(".py"):
                data = documents.over(self._set_in(place, further - 1), data)
        return data

    def label(self, path: str) -> str:
        """A file's display name."""
        return os.path.relpath(path.removesuffix(embedded.EXAMPLES), self.root)

    def relative(self, path: str) -> str:
        """A configuration file that a script names, as a path below the workspace folder; unknown ones unchanged."""
        parts = [part for part in path.replace(os.sep, "/").split("/") if part not in (".", "..", "")]
        for length in range(len(parts), 0, -1):
            tail = os.sep + os.sep.join(parts[-length:])
            found = [each for each in self.configuration_files if each.endswith(tail)]
            if found:
                return os.path.relpath(min(found, key=lambda each: (len(each), each)), self.root)
        return path

    def configurations(self, near: str, suffixes: tuple[str, ...]) -> list[str]:
        """Configuration files with one of these suffixes, the nearest first, those in configuration folders before
        others."""
        key = (os.path.dirname(near), suffixes)
        if key not in self._near:
            wanted = tuple(each for each in suffixes if each) or documents.SUFFIXES
            if ".yaml" in wanted or ".yml" in wanted:
                wanted = (*wanted, ".yaml", ".yml")
            found = [
                path
                for path in self.configuration_files
                if path.endswith(wanted) and os.path.basename(path) not in _NO_CONFIGURATION
            ]
            self._near[key] = sorted(found, key=lambda path: (*_rank(path, self.root), distance(near, path), path))
        return self._near[key]


def distance(one: str, other: str) -> int:
    """The distance of two files in the tree of folders."""
    a, b = os.path.dirname(one).split(os.sep), os.path.dirname(other).split(os.sep)
    common = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        common += 1
    return len(a) + len(b) - 2 * common


def _sets_names(path: str, facts: Facts) -> bool:
    """Whether a Python file does little but assign values to names, like a configuration."""
    only = not facts.classes and len(facts.scopes) == 1 and len(facts.assigned) >= _LEAST_NAMES
    return only and path.endswith(".py") and os.path.basename(path) not in _NO_CONFIGURATION


def _rank(path: str, root: str) -> tuple[bool]:
    parts = os.path.relpath(path, root).split(os.sep)[:-1]
    return (not any(part.lower() in _CONFIG_FOLDERS for part in parts),)
