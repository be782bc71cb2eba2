"""Values as Python text that can be evaluated in the class's own module, with the imports that the text needs."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from . import values as v
from .fields import declares_fields, hook_of
from .symbols import Symbol, Symbols

HOLE, CONFIG, WITH = "__hole__", "AttrDict", "with_attributes"
"""Names that the evaluation provides (``worker.scope``): ``AttrDict({…})`` for a dict with attributes,
``with_attributes(Settings(), dim=3)``; and ``__hole__("dim")`` for unknown values, which cannot be evaluated."""
_MOST_TEXT = 40_000
_MOST_SHOWN = 6
_ALWAYS = ("torch", "builtins")


class TooLong(Exception):
    """The text would be too long to be useful."""


@dataclass(frozen=True)
class Import:
    """A name that a text needs. With ``file``: ``target`` (dotted) in that file of the workspace; otherwise the
    installed module ``target`` is imported and ``name`` is its top package."""

    name: str
    target: str
    file: str | None = None


@dataclass
class Text:
    """An expression, its imports, and its unknown parts."""

    text: str
    imports: tuple[Import, ...] = ()
    holes: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


@dataclass
class Renderer:
    """Writes text for one home file, whose definitions are referred to by name."""

    symbols: Symbols
    home: str
    relative: Callable[[str], str] = str
    imports: dict[str, Import] = field(default_factory=dict)
    holes: dict[str, None] = field(default_factory=dict)
    origins: dict[str, None] = field(default_factory=dict)
    left: int = 4000
    brief: bool = False  # for display: long tables are left out

    def construction(
        self, kind: Symbol, args: list[v.Value], keywords: dict[str, v.Value], method: str | None = None
    ) -> Text:
        """``Net(3, depth=[2, 2])``, or ``Net.small(3)`` of a class method.  Raises TooLong."""
        name = self.symbol(kind)
        if method is None:
            return self._text(self.called(kind, name, args, keywords))
        return self._text(ast.Call(ast.Attribute(name, method, ast.Load()), *self.given(args, keywords)))

    def arguments(self, args: list[v.Value], keywords: dict[str, v.Value]) -> Text:
        """``x, mask=None``, as between the parentheses of a call.  Raises TooLong."""
        made = ast.Call(ast.Name("f", ast.Load()), *self.given(args, keywords))
        found = self._text(made)
        found.text = found.text[2:-1]
        return found

    def _text(self, node: ast.expr) -> Text:
        text = ast.unparse(ast.fix_missing_locations(node))
        if len(text) > _MOST_TEXT:
            raise TooLong
        return Text(text, tuple(self.imports.values()), tuple(self.holes), tuple(self.origins))

    # ---- calls

    def called(self, kind: Symbol, name: ast.expr, args: list[v.Value], keywords: dict[str, v.Value]) -> ast.Call:
        """A construction: unknown arguments are holes named after their parameters, and so are missing required
        ones."""
        init = init_of(self.symbols, kind)
        plain = [each.rstrip("=") for each in init if each[:1] != "*"]
        renamed = [
            _harmless(plain[at], _as_parameter(value, plain[at])) if at < len(plain) else value
            for at, value in enumerate(args)
        ]
        named = {key: _as_parameter(value, key) for key, value in keywords.items() if key != v.OPEN}
        for at, each in enumerate(init):
            if each.isidentifier() and each not in named and plain.index(each) >= len(args):
                named[each] = v.Hole(each)
            if each[:1] == "*" and each[1:2] != "*":
                break
            del at
        # An unknown optional argument is left out.
        optional = {each[:-1] for each in init if each[-1:] == "="}
        while len(renamed) and isinstance(renamed[-1], v.Hole) and renamed[-1].name in optional:
            renamed.pop()
        named = {key: value for key, value in named.items() if not (isinstance(value, v.Hole) and key in optional)}
        return ast.Call(name, *self.given(renamed, named))

    def given(
        self, args: list[v.Value], keywords: dict[str, v.Value], of_torch: bool = False
    ) -> tuple[list[ast.expr], list[ast.keyword]]:
        made = [self.of(each) for each in args]
        named = []
        for key, value in keywords.items():
            if key == v.OPEN or (of_torch and key == "device"):
                continue
            value = _harmless(key, value)
            if key.isidentifier() and not keyword.iskeyword(key):
                named.append(ast.keyword(key, self.of(value)))
            else:
                named.append(ast.keyword(None, ast.Dict([ast.Constant(key)], [self.of(value)])))
        return made, named

    # ---- values

    def of(self, value: v.Value) -> ast.expr:
        self.left -= 1
        if self.left < 0:
            raise TooLong
        method = getattr(self, f"of_{type(value).__name__}", None)
        return self.hole("value") if method is None else method(value)

    def hole(self, name: str) -> ast.expr:
        self.holes[name] = None
        return ast.Call(ast.Name(HOLE, ast.Load()), [ast.Constant(name)], [])

    def of_Hole(self, value: v.Hole) -> ast.expr:
        return self.hole(value.name)

    def of_Const(self, value: v.Const) -> ast.expr:
        data = value.value
        if isinstance(data, PurePath):
            data = str(data)
        if isinstance(data, str) and data.endswith((".yaml", ".yml", ".json", ".toml")):
            data = self.relative(data)
        if isinstance(data, slice):
            parts: list[ast.expr] = [ast.Constant(each) for each in (data.start, data.stop, data.step)]
            return ast.Call(ast.Name("slice", ast.Load()), parts, [])
        if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
            return ast.Call(ast.Name("float", ast.Load()), [ast.Constant(str(data))], [])
        return ast.Constant(data)

    def of_Sequence(self, value: v.Sequence) -> ast.expr:
        if not value.whole:
            return self.hole("items")
        items = [self.of(each) for each in value.items]
        if value.kind == "tuple":
            return ast.Tuple(items, ast.Load())
        if value.kind == "set" and items:
            return ast.Set(items)
        if value.kind == "set":
            return ast.Call(ast.Name("set", ast.Load()), [], [])
        return ast.List(items, ast.Load())

    def of_Mapping(self, value: v.Mapping) -> ast.expr:
        if value.origin:
            self.origins[value.origin] = None
        if not value.whole and not value.items:
            return self.hole("config" if value.kind != "dict" else "options")
        items = {key: _harmless(key, each) for key, each in value.items.items()}
        if value.kind != "dict":
            items.update({name: v.Hole(name) for name in value.missing if name not in items})
        if self.brief and len(items) > _MOST_SHOWN:
            return ast.Name("{…}" if value.kind == "dict" else "Namespace(…)", ast.Load())
        if value.kind == "namespace":
            named = [
                ast.keyword(str(key), self.of(each))
                for key, each in items.items()
                if isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key)
            ]
            return ast.Call(self.external("argparse.Namespace"), [], named)
        made = ast.Dict([_constant(key) for key in items], [self.of(each) for each in items.values()])
        return made if value.kind == "dict" else ast.Call(ast.Name(CONFIG, ast.Load()), [made], [])

    def of_External(self, value: v.External) -> ast.expr:
        return self.hole(value.name.rpartition(".")[2]) if "<" in value.name else self.external(value.name)

    def of_Class(self, value: v.Class) -> ast.expr:
        return self.symbol(value.symbol)

    def of_Function(self, value: v.Function) -> ast.expr:
        if isinstance(value.node, ast.Lambda):
            return self._lambda(value.node)
        if value.receiver is not None or "<locals>" in value.name:
            return self.hole(value.name.rpartition(".")[2])
        return self.symbol(Symbol("function", value.file, value.name))

    def of_Partial(self, value: v.Partial) -> ast.expr:
        args, keywords = self.given([value.function, *value.args], value.keywords)
        return ast.Call(self.external("functools.partial"), args, keywords)

    def of_Object(self, value: v.Object) -> ast.expr:
        kind = value.kind.symbol
        if "<locals>" in kind.name:
            return self.hole(kind.name.rpartition(".")[2])
        name = self.symbol(kind)
        if declares_fields(self.symbols, kind) and (value.fields or not value.args):
            fields, before, given = value.fields, value.given, value.keywords
            changed = {key: each for key, each in fields.items() if key in before and each is not before[key]}
            later = {key: each for key, each in value.changed.items() if key not in before}
            if hook_of(self.symbols, kind) is None:
                given = {**given, **changed}  # nothing computes with the arguments
            else:
                later.update(changed)
            known = {key: v.Hole(key) if isinstance(each, v.Hole) else each for key, each in given.items()}
            return self._with(ast.Call(name, *self.given([], known)), later)
        made = self.called(kind, name, value.args, value.keywords)
        return made if self.symbols.is_module(kind) else self._with(made, value.changed)

    def _with(self, made: ast.expr, later: dict[str, v.Value]) -> ast.expr:
        """An object with attributes that were set after its construction."""
        return ast.Call(ast.Name(WITH, ast.Load()), [made], self.given([], later)[1]) if later else made

    def of_Apply(self, value: v.Apply) -> ast.expr:
        function = value.function
        if v.OPEN in value.keywords:
            return self.hole(getattr(function, "name", "value").rpartition(".")[2])  # with further arguments
        of_torch = isinstance(function, v.External) and function.name.startswith(("torch.", "numpy."))
        args, keywords = self.given(value.args, value.keywords, of_torch)
        return ast.Call(self.of(function), args, keywords)

    def of_Attribute(self, value: v.Attribute) -> ast.expr:
        if isinstance(value.base, v.Hole):
            return self.hole(value.name)
        return ast.Attribute(self.of(value.base), value.name, ast.Load())

    def of_Item(self, value: v.Item) -> ast.expr:
        return ast.Subscript(self.of(value.base), self._index(value.index), ast.Load())

    def _index(self, value: v.Value) -> ast.expr:
        if isinstance(value, v.Const) and isinstance(value.value, slice):
            parts = (value.value.start, value.value.stop, value.value.step)
            return ast.Slice(*(None if each is None else ast.Constant(each) for each in parts))
        if isinstance(value, v.Sequence) and value.kind == "tuple" and value.whole and value.items:
            return ast.Tuple([self._index(each) for each in value.items], ast.Load())
        return self.of(value)

    def of_Choice(self, value: v.Choice) -> ast.expr:
        known = [each for each in value.options if not isinstance(each, v.Hole)]
        return self.of(known[0]) if known else self.hole("choice")

    def of_Operation(self, value: v.Operation) -> ast.expr:
        node, operands = value.node, [self.of(each) for each in value.operands]
        if isinstance(node, ast.BinOp):
            return ast.BinOp(operands[0], node.op, operands[1])
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, operands[0])
        if isinstance(node, ast.Compare):
            return ast.Compare(operands[0], node.ops, operands[1:])
        return self.hole("value")

    def _lambda(self, node: ast.Lambda) -> ast.expr:
        own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        free = {each.id for each in ast.walk(node.body) if isinstance(each, ast.Name)} - own
        known = {name for name in free if self.symbols.lookup(self.home, name) is not None}
        return node if free - known <= {"torch", "nn", "int", "len", "max", "min", "abs"} else self.hole("function")

    # ---- names

    def symbol(self, symbol: Symbol) -> ast.expr:
        """The name for a class or function of the workspace."""
        if "<locals>" in symbol.name:
            return self.hole(symbol.name.rpartition(".")[2])
        if symbol.file == self.home:
            return _dotted(symbol.name)
        first, _, rest = symbol.name.partition(".")
        made = self._import(first, first, symbol.file)
        return _dotted(f"{made}.{rest}" if rest else made)

    def external(self, name: str) -> ast.expr:
        """The name for something of an installed package."""
        if name.startswith("builtins."):
            return _dotted(name.removeprefix("builtins."))
        if name.startswith("torch.nn.") and not name.startswith(("torch.nn.functional", "torch.nn.utils")):
            return _dotted(name.removeprefix("torch."))
        top, _, rest = name.partition(".")
        if top not in _ALWAYS:
            module = name.rpartition(".")[0] or name
            top = self._import(top, module, None)
        return _dotted(f"{top}.{rest}" if rest else top)

    def _import(self, name: str, target: str, file: str | None) -> str:
        wanted, number = name, 1
        if file is None:
            self.imports[f"{name}:{target}"] = Import(name, target)
            return name
        # The same name may have another meaning at home, or come from two files.
        at_home = self.symbols.lookup(self.home, name)
        while self._taken(wanted, target, file) or (
            wanted == name and at_home is not None and at_home.file not in (file, "") and at_home.kind != "module"
        ):
            number += 1
            wanted = f"{name}_{number}"
        self.imports[wanted] = Import(wanted, target, file)
        return wanted

    def _taken(self, name: str, target: str, file: str) -> bool:
        known = self.imports.get(name)
        return known is not None and (known.target, known.file) != (target, file)


def _as_parameter(value: v.Value, name: str) -> v.Value:
    return v.Hole(name) if isinstance(value, v.Hole) else value


def init_of(symbols: Symbols, kind: Symbol) -> tuple[str, ...]:
    """Parameters of the ``__init__`` that a class of the workspace has, as `ClassFact.init` writes them."""
    for each in symbols.mro(kind):
        fact = symbols.classes(each.file).get(each.name) if each.kind == "class" else None
        if fact is not None and "__init__" in fact.methods:
            return fact.init
    return ()


def _harmless(key: Any, value: v.Value) -> v.Value:
    """Removes arguments that would fetch weights, or use a device that the worker lacks."""
    if not isinstance(value, v.Const) or not isinstance(key, str):
        return value
    if "pretrain" in key.lower() and value.value is True:
        return v.Const(False)
    if key in ("device", "map_location", "device_map") and isinstance(value.value, str):
        return v.Const("cpu") if value.value.startswith(("cuda", "gpu", "mps", "auto")) else value
    return value


def _constant(key: Any) -> ast.expr:
    if isinstance(key, tuple):
        return ast.Tuple([_constant(each) for each in key], ast.Load())
    return ast.Constant(str(key) if isinstance(key, PurePath) else key)


def _dotted(name: str) -> ast.expr:
    first, *rest = name.split(".")
    made: ast.expr = ast.Name(first, ast.Load())
    for part in rest:
        made = ast.Attribute(made, part, ast.Load())
    return made
