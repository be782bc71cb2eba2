"""Facts of one file by itself: the names it binds, its classes and functions, and the calls in them.

Facts are plain data, small, and independent of every other file, so that they can be kept on disk by the file's
content. Facts across files are in `symbols`.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import sys
from dataclasses import dataclass, field
from typing import Any

from . import captures, embedded
from .definitions import replaces

VERSION = 3
"""Increase it when the same text gives other facts, to invalidate those on disk."""

_TYPE_KEYS = ("type", "_target_", "target", "class_path", "class_name")
_BUILTINS = frozenset(dir(builtins))
Import = tuple[str, int, str | None]
"""Module, level (dots before it), and the name taken from it (None: the module itself)."""

# Packages that define nothing of the workspace; uses of them matter only if they capture a model.
_INSTALLED = frozenset({
    "torch", "numpy", "os", "sys", "math", "typing", "collections", "functools", "itertools", "random", "time",
    "json", "re", "logging", "warnings", "copy", "pathlib", "torchvision", "torchaudio", "einops", "tqdm", "scipy",
    "matplotlib", "PIL", "cv2", "pandas", "sklearn", "transformers", "timm", "glob", "datetime", "subprocess",
    "dataclasses", "abc", "contextlib", "operator", "types", "unittest", "pytest", "wandb", "tensorflow", "jax",
    "typing_extensions",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClassFact:
    """One class statement.  ``decorators`` are pairs of a dotted name and the first text argument, if there is one."""

    name: str  # qualified: ``Outer.Inner``, ``make.<locals>.Net``
    line: int
    end_line: int
    bases: tuple[str, ...]
    methods: tuple[str, ...]
    decorators: tuple[tuple[str, str], ...] = ()
    init: tuple[str, ...] = ()
    """Parameters of ``__init__``, the required ones without a sign, others with ``=``, ``*`` and ``**``."""
    fields: tuple[str, ...] = ()
    """Names that the class statement binds to values or annotates."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A function, or the file itself (with an empty name): its lines, and the non-local names that it reads, with their
    attributes (``models.resnet18``)."""

    name: str
    line: int
    end_line: int
    names: tuple[str, ...]
    decorators: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Facts:
    """All of it."""

    digest: str
    imports: dict[str, Import] = field(default_factory=dict)
    also: tuple[tuple[str, Import], ...] = ()
    """Further imports of a name that another import in the file binds, too."""
    stars: tuple[Import, ...] = ()
    assigned: tuple[str, ...] = ()
    classes: tuple[ClassFact, ...] = ()
    scopes: tuple[Scope, ...] = ()
    typed: tuple[str, ...] = ()
    """Names that configurations in the file have as ``type`` or the like: ``dict(type="ResNet", depth=50)``."""
    examples: Facts | None = None
    """The facts of the examples in the file's docstrings."""

    def read_names(self) -> set[str]:
        """All parts of all names that are read."""
        return {part for scope in self.scopes for name in scope.names for part in name.split(".")}

    def shape(self) -> tuple[Any, ...]:
        """The parts visible to other files: everything but function bodies."""
        functions = tuple(scope.name for scope in self.scopes)
        kinds = tuple((c.name, c.bases, c.methods, c.decorators, c.init, c.fields) for c in self.classes)
        return (tuple(sorted(self.imports.items())), self.also, self.stars, self.assigned, functions, kinds)

    def to_json(self) -> list[Any]:
        kinds = [[c.name, c.line, c.end_line, c.bases, c.methods, c.decorators, c.init, c.fields] for c in self.classes]
        scopes = [[s.name, s.line, s.end_line, " ".join(s.names), s.decorators] for s in self.scopes]
        return [
            self.digest,
            self.imports,
            self.also,
            self.stars,
            self.assigned,
            kinds,
            scopes,
            self.typed,
            self.examples and self.examples.to_json(),
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> Facts:
        """Raises ValueError, TypeError, IndexError or AttributeError for invalid data."""
        digest, imports, also, stars, assigned, kinds, scopes, typed, examples = data
        return cls(
            digest=str(digest),
            imports={sys.intern(name): _import(each) for name, each in imports.items()},
            also=tuple((sys.intern(name), _import(each)) for name, each in also),
            stars=tuple(_import(each) for each in stars),
            assigned=_interned(assigned),
            classes=tuple(
                ClassFact(str(n), int(a), int(b), _interned(c), _interned(d), _pairs(e), _interned(f), _interned(g))
                for n, a, b, c, d, e, f, g in kinds
            ),
            scopes=tuple(Scope(str(n), int(a), int(b), _interned(c.split()), _pairs(d)) for n, a, b, c, d in scopes),
            typed=_interned(typed),
            examples=None if examples is None else cls.from_json(examples),
        )


def digest_of(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def of_file(path: str, text: str) -> Facts:
    """The facts of a file with this content: of its Python, and of the examples in its docstrings."""
    made = extract(embedded.code(path, text))
    made.digest = digest_of(text)
    if path.endswith(".py") and ">>> " in text and (code := embedded.examples(text)):
        made.examples = extract(code)
    return made


def extract(text: str) -> Facts:
    """The facts of a text; only the digest if it cannot be parsed."""
    facts = Facts(digest_of(text))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return facts
    reader = _Reader(facts)
    try:
        reader.read(tree)
    except RecursionError:
        return Facts(facts.digest)
    return facts


class _Reader:
    """Walks a tree once. An explicit loop, not a visitor, since most of the first start's time is spent here."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.assigned: dict[str, None] = {}
        self.classes: list[ClassFact] = []
        self.scopes: list[Scope] = []
        self.typed: dict[str, None] = {}
        self.first = 0  # the scope that is being read
        self.defined: set[str] = set()

    def read(self, tree: ast.Module) -> None:
        self._scope("", tree.body, 1, 1 << 30, (), {}, "")
        facts = self.facts
        facts.classes, facts.scopes = tuple(self.classes), tuple(self.scopes)
        facts.assigned, facts.typed = _interned(self.assigned), _interned(self.typed)

    def _scope(
        self,
        name: str,
        body: list[Any],
        line: int,
        end: int,
        decorators: tuple[tuple[str, str], ...],
        own: dict[str, None],
        prefix: str,
    ) -> None:
        at = len(self.scopes)
        before, self.first = self.first, at
        self.scopes.append(Scope(name, line, end, ()))
        read: dict[str, None] = {}
        self._walk(body, read, own, prefix)
        if not name:
            self.assigned = dict(own)
            own = {}
        imports = self.facts.imports
        kept = []
        for each in read:
            first, _, rest = each.partition(".")
            if first in own or first == "self":
                continue
            source = imports.get(first)
            if source is not None and not source[1] and source[0].partition(".")[0] in _INSTALLED:
                if each.rpartition(".")[2] not in captures.NAMES:
                    continue
            elif not rest and source is None and first in _BUILTINS:
                continue
            kept.append(each)
        self.scopes[at] = Scope(name, line, end, _interned(kept), decorators)
        self.first = before

    def _walk(self, body: list[Any], read: dict[str, None], own: dict[str, None], prefix: str) -> None:
        stack = list(reversed(body))
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is ast.Name:
                (read if node.ctx.__class__ is ast.Load else own)[node.id] = None
                continue
            if kind is ast.Constant:
                continue
            if kind is ast.Attribute:
                dotted = _dotted(node)
                assert dotted is not None
                if dotted[0] != ".":
                    read[dotted] = None
                    continue
            elif kind is ast.FunctionDef or kind is ast.AsyncFunctionDef:
                stack += [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
                end = node.end_lineno or node.lineno
                name, arguments = prefix + node.name, node.args
                self._replace(node, body, name)
                inner = {each.arg: None for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
                self._scope(name, node.body, node.lineno, end, _decorators(node), inner, f"{name}.<locals>.")
                continue
            elif kind is ast.ClassDef:
                stack += [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
                self._replace(node, body, prefix + node.name)
                self._class(node, read, own, prefix)
                continue
            elif kind is ast.keyword:
                if node.arg in _TYPE_KEYS:
                    self._type(node.value)
            elif kind is ast.Dict:
                for key, value in zip(node.keys, node.values, strict=True):
                    if key.__class__ is ast.Constant and key.value in _TYPE_KEYS:
                        self._type(value)
            elif kind is ast.Import or kind is ast.ImportFrom:
                self._import(node, not prefix)
                continue
            for name in node._fields:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    stack.extend(reversed([each for each in value if isinstance(each, ast.AST)]))
                elif isinstance(value, ast.AST) and name != "annotation":
                    stack.append(value)

    def _replace(self, node: Any, body: list[Any], name: str) -> None:
        """Drops what an earlier definition of the name has defined, if this one replaces it."""
        again = name in self.defined
        self.defined.add(name)
        if not again or node.col_offset != body[0].col_offset or not replaces(node):
            return
        for found in (self.classes, self.scopes):
            for at in range(len(found) - 1, self.first if found is self.scopes else -1, -1):
                if found[at].name == name or found[at].name.startswith(f"{name}."):
                    del found[at]

    def _type(self, value: ast.expr) -> None:
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value[:1].isalpha():
            self.typed[value.value.rpartition(".")[2]] = None

    def _class(self, node: ast.ClassDef, read: dict[str, None], own: dict[str, None], prefix: str) -> None:
        methods = {each.name: each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}
        init = methods.get("__init__")
        self.classes.append(
            ClassFact(
                sys.intern(prefix + node.name),
                node.lineno,
                node.end_lineno or node.lineno,
                _interned(filter(None, map(_base, node.bases))),
                _interned(methods),
                _decorators(node),
                _interned(parameters(init)) if init else (),
                _interned(_fields(node)),
            )
        )
        # A class body is executed by the scope around it, so its names are read there.
        self._walk(node.body, read, {} if prefix else dict(own), f"{prefix}{node.name}.")

    def _import(self, node: ast.Import | ast.ImportFrom, module: bool) -> None:
        # Imports in functions count as the file's: a name mostly has the same meaning wherever it is imported.
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                target = alias.name if alias.asname else name
                self._bind(sys.intern(name), (sys.intern(target), 0, None), module)
            return
        source = sys.intern(node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.facts.stars += ((source, node.level, "*"),)
                continue
            name = sys.intern(alias.asname or alias.name)
            self._bind(name, (source, node.level, sys.intern(alias.name)), module)

    def _bind(self, name: str, target: Import, module: bool) -> None:
        imports = self.facts.imports
        old = imports.setdefault(name, target)
        if old == target:
            return
        if module:
            imports[name], target = target, old
        if (name, target) not in self.facts.also:
            self.facts.also += ((name, target),)


def _fields(node: ast.ClassDef) -> list[str]:
    targets = [
        target
        for part in node.body
        if isinstance(part, (ast.Assign, ast.AnnAssign))
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
    ]
    return [each.id for each in targets if isinstance(each, ast.Name)]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """A method's parameters without ``self``: ``dim``, ``bias=``, ``*rest``, ``**options``."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    optional = len(plain) - len(arguments.defaults)
    found = [each.arg + ("=" if at >= optional else "") for at, each in enumerate(plain)][1:]
    if arguments.vararg:
        found.append(f"*{arguments.vararg.arg}")
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(each.arg + ("=" if default is not None else ""))
    if arguments.kwarg:
        found.append(f"**{arguments.kwarg.arg}")
    return found


def _dotted(node: Any) -> str | None:
    """``build``, ``models.build``; ``.build`` after anything that is not a name; None for other expressions."""
    if node.__class__ is ast.Name:
        return node.id
    if node.__class__ is not ast.Attribute:
        return None
    parts = [node.attr]
    node = node.value
    while node.__class__ is ast.Attribute:
        parts.append(node.attr)
        node = node.value
    if node.__class__ is ast.Name:
        parts.append(node.id)
    else:
        parts.append("")
    parts.reverse()
    return ".".join(parts)


def _base(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        # six.with_metaclass(Meta, Base), namedtuple("Config", …), get_base(): the last name in it counts.
        inner = [_dotted(argument) for argument in node.args]
        called = _dotted(node.func)
        return inner[-1] if called and called.endswith("with_metaclass") and inner and inner[-1] else called
    return _dotted(node)


def _decorators(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[tuple[str, str], ...]:
    found = []
    for each in node.decorator_list:
        call = each if isinstance(each, ast.Call) else None
        name = _dotted(call.func if call else each)
        if name is None:
            continue
        arguments = [*call.args, *(k.value for k in call.keywords if k.arg in ("name", "key"))] if call else []
        texts = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        found.append((sys.intern(name), sys.intern(texts[0] if texts else "")))
    return tuple(found)


def _interned(names: Any) -> tuple[str, ...]:
    return tuple(map(sys.intern, names))


def _pairs(data: Any) -> tuple[tuple[str, str], ...]:
    return tuple((sys.intern(a), sys.intern(b)) for a, b in data)


def _import(data: Any) -> Import:
    module, level, name = data
    return (sys.intern(module), int(level), None if name is None else sys.intern(name))
