"""Reads functions without running them, to see what happens to their parameters.

A small abstract interpreter: a value is a `Place` (a parameter, or a part of one), something `Known` (what the module
defines, a constant, a real submodule), a `Sequence` of values, or None for what is of no interest. Each function is
read once; a call connects its arguments with the parameters of what is called.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from .places import NOTHING, Place
from .source import FunctionNode, Sources, plain

MOST_NODES = 40_000
"""Expressions that are read for one class; then the rest stays unread."""
_DEPTH = 6
_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@",
}  # fmt: skip


@dataclass(eq=False)
class Known:
    """A value that is there already."""

    value: Any


@dataclass(eq=False)
class Sequence:
    """A list or tuple that the code makes."""

    items: list[Any]


@dataclass(eq=False)
class Shape:
    """``x.shape`` of a place; with ``index`` one size of it."""

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
    """The object whose methods are read: ``real`` where it exists, otherwise what its code stores in it."""

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


class Reader:
    """Readings of functions and classes, made when they are asked for."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.left = MOST_NODES
        self.depth = 0
        self._functions: dict[Any, Reading] = {}
        self._classes: dict[type, Reading | None] = {}
        self._signatures: dict[Any, dict[str, Place] | None] = {}
        self._owners: dict[type, Self] = {}
        self._own_modules: list[type] | None = None
        self._attributes: dict[type, set[str]] = {}
        self._alive: list[Any] = []  # what keys by identity belong to

    def constructor(self, kind: type) -> Reading | None:
        """What the class does with the parameters of its ``__init__``, in all its methods."""
        if kind not in self._classes:
            self._classes[kind] = None
            owner = self._owners[kind] = Self(kind)
            function = plain(kind.__init__)  # type: ignore[misc]
            reading = self.function(function, owner) if function is not None else None
            self._classes[kind] = reading
            if reading is not None:
                for name in [name for each in kind.__mro__[:-1] for name in vars(each) if self._is_own_class(each)]:
                    method = plain(inspect.getattr_static(kind, name, None))
                    if method is not None and name != "__init__":
                        self.function(method, owner)
        return self._classes[kind]

    def forward(self, module: Any) -> Reading | None:
        """What a module that exists does with the arguments of its forward."""
        function = plain(getattr(module, "forward", None))
        return self.function(function, Self(type(module), module)) if function is not None else None

    def function(self, function: Any, owner: Self | None = None) -> Reading | None:
        """What the function does with its parameters; None where its text is not to be had."""
        node = self.sources.of_function(function)
        if node is None:
            return None
        key = (function.__code__, id(owner.real if owner is not None and owner.real is not None else owner))
        known = self._functions.get(key)
        if known is not None:
            return known
        defaults = _defaults(function)
        notes = {name: resolved(note, function) for name, note in getattr(function, "__annotations__", {}).items()}
        places = {
            each.arg: Place(each.arg, notes.get(each.arg, NOTHING), defaults.get(each.arg, NOTHING))
            for each in _parameters(node)
        }
        own = owner is not None and node.args.args[:1] != []
        reading = _reading(node, places, own)
        self._functions[key] = reading
        self._alive.append(owner)
        if self.left <= 0 or self.depth > _DEPTH:
            return reading
        names: dict[str, Any] = dict(places)
        if own:
            names[node.args.args[0].arg] = owner
            if "." in function.__qualname__:
                names["__class__"] = Known(_owner_class(owner.kind, function))  # type: ignore[union-attr]
        self.depth += 1
        try:
            Body(self, function, names, owner, reading).run(node)
        finally:
            self.depth -= 1
        return reading

    def signature(self, function: Any) -> dict[str, Place] | None:
        """Parameters of something installed: names, annotations and defaults are all that is known of them."""
        try:
            known = self._signatures.get(function, NOTHING)
        except TypeError:
            return None
        if known is NOTHING:
            try:
                parameters = inspect.signature(function).parameters.values()
                known = {each.name: _place_of(each) for each in parameters}
            except (TypeError, ValueError):
                known = None
            self._signatures[function] = known
        return known  # type: ignore[return-value]

    def stored(self, kind: type, name: str) -> Place | None:
        """The place of an attribute that a class keeps, where its constructor has been read."""
        owner = self._owners.get(kind)
        place = owner.stored.get(name) if owner is not None else None
        return place if isinstance(place, Place) else None

    def module_classes(self) -> list[type]:
        """Module classes of the workspace that have been imported."""
        import sys

        import torch

        if self._own_modules is None:
            found: dict[type, None] = {}
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str) and self.sources.is_own(file):
                    for each in list(vars(module).values()):
                        if (
                            isinstance(each, type)
                            and issubclass(each, torch.nn.Module)
                            and each.__module__ == module.__name__
                        ):
                            found[each] = None
            self._own_modules = list(found)
        return self._own_modules

    def attributes(self, kind: type) -> set[str]:
        """Names that instances of a class of the workspace have: what its code stores in self, and what classes
        define."""
        known = self._attributes.get(kind)
        if known is None:
            known = {name for each in kind.__mro__ for name in vars(each)}
            for each in kind.__mro__:
                node = (
                    self.sources.of_function(vars(each).get("__init__"))
                    if self.is_own(vars(each).get("__init__"))
                    else None
                )
                if node is not None:
                    known |= {
                        part.attr
                        for part in ast.walk(node)
                        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
                    }
            self._attributes[kind] = known
        return known

    def is_own(self, thing: Any) -> bool:
        function = plain(thing)
        return function is not None and self.sources.is_own(function.__code__.co_filename)

    def _is_own_class(self, kind: type) -> bool:
        return any(self.is_own(value) for value in vars(kind).values())


class Body:
    """Names and their values while a function is read."""

    def __init__(self, reader: Reader, function: Any, names: dict[str, Any], owner: Self | None, to: Reading) -> None:
        from .calls import Calls

        self.reader = reader
        self.function = function
        self.names = names
        self.owner = owner
        self.reading = to
        self.branch = 0
        self.calls = Calls(self)
        self.outer: dict[str, Any] = {}
        if function is not None and function.__closure__:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                try:
                    self.outer[name] = cell.cell_contents
                except ValueError:
                    continue

    def run(self, node: FunctionNode) -> None:
        if isinstance(node, ast.Lambda):
            self.reading.returns.append(self.value(node.body))
        else:
            self.block(node.body)

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            else:
                for part in ast.iter_child_nodes(statement):
                    if isinstance(part, ast.expr):
                        self.value(part)

    def value(self, node: ast.expr | None) -> Any:
        if node is None or self.reader.left <= 0:
            return None
        self.reader.left -= 1
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return method(node)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self.value(part)
        return None

    # Statements

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.store(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        kept = self.value(_loaded(node.target))
        other = self.value(node.value)
        result = self._arithmetic(kept, other, node.op)
        if not isinstance(kept, (Sequence, Known)):
            self.store(node.target, result if result is not None else kept)

    def store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Name):
            before = self.names.get(target.id)
            # `if x is None: x = …` keeps x, whose other value still counts.
            if not (self.branch and isinstance(before, Place) and not isinstance(value, Place)):
                self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for each, part in zip(target.elts, self._unpacked(value, target), strict=False):
                self.store(each, part)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value)
            if isinstance(owner, Self):
                self._keep(owner, target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.value(target.value)
            self.value(target.slice)

    def _keep(self, owner: Self, name: str, value: Any) -> None:
        if isinstance(value, Place):
            kept = owner.stored.get(name)
            if not isinstance(kept, Place):
                kept = owner.stored[name] = Place(name)
            value.flow(kept)
        elif not isinstance(owner.stored.get(name), Place) and value is not None:
            owner.stored[name] = value

    def _unpacked(self, value: Any, target: ast.Tuple | ast.List) -> list[Any]:
        count = len(target.elts)
        starred = any(isinstance(each, ast.Starred) for each in target.elts)
        if isinstance(value, Place):
            value.use("iterate" if starred else "unpack", None if starred else count)
            return [value.part("item", index) for index in range(count)]
        if isinstance(value, Shape) and value.index is None:
            names = tuple(each.id if isinstance(each, ast.Name) else "_" for each in target.elts)
            value.place.use("rank_at_least" if starred else "dims", count - 1 if starred else names)
            if starred and isinstance(target.elts[0], ast.Starred):
                return [Shape(value.place, index - count) for index in range(count)]
            return [Shape(value.place, index) for index in range(count)]
        if isinstance(value, Sequence) and len(value.items) == count:
            return value.items
        if isinstance(value, Known) and isinstance(value.value, (tuple, list)) and len(value.value) == count:
            return [Known(each) for each in value.value]
        return [None] * count

    def _return(self, node: ast.Return) -> None:
        self.reading.returns.append(self.value(node.value))

    def _if(self, node: ast.If) -> None:
        self.truth(self.value(node.test))
        self.branch += 1
        before = dict(self.names)
        self.block(node.body)
        after, self.names = self.names, before
        self.block(node.orelse)
        self.branch -= 1
        self.names = {**self.names, **{k: v for k, v in after.items() if v is not None or k not in self.names}}

    def _while(self, node: ast.While) -> None:
        self.truth(self.value(node.test))
        self.block(node.body)

    def _for(self, node: ast.For) -> None:
        for item in self.items(node.iter):
            self.store(node.target, item)
            self.block(node.body)
        self.block(node.orelse)

    _asyncfor = _for

    def _try(self, node: ast.Try) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            self.value(item.context_expr)
        self.block(node.body)

    def _assert(self, node: ast.Assert) -> None:
        self.truth(self.value(node.test))

    def _functiondef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = Local(node, self)

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant):
                    self._compare_with(subject, part.value.value)
            self.block(case.body)

    def items(self, node: ast.expr) -> list[Any]:
        """What a loop over this gives, one entry for each time its body is worth reading."""
        return self.of_iterable(self.value(node))

    def of_iterable(self, value: Any) -> list[Any]:
        import torch

        if isinstance(value, Place):
            value.use("iterate")
            return [value.part("item")]
        if isinstance(value, Sequence):
            return value.items[:12] or [None]
        if isinstance(value, Known):
            if isinstance(value.value, (list, tuple, torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ParameterList)):
                texts = all(isinstance(each, str) for each in value.value)
                return [Known(each) for each in list(value.value)[: 12 if texts else 4]] or [None]
            if isinstance(value.value, torch.nn.ModuleDict):
                return [Known(each) for each in list(value.value)[:4]] or [None]
        return [None]

    # Expressions

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        for scope in (self.outer, getattr(self.function, "__globals__", {}), vars(builtins)):
            if node.id in scope:
                return Known(scope[node.id])
        return None

    def _constant(self, node: ast.Constant) -> Any:
        return Known(node.value)

    def _attribute(self, node: ast.Attribute) -> Any:
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Place):
            if name == "shape":
                owner.use("tensor", "shape")
                return Shape(owner)
            owner.use("attribute", name)
            return owner.part("attribute", name)
        if isinstance(owner, Self):
            if owner.real is not None:
                return _attribute_of(owner.real, name, owner)
            if name in owner.stored:
                return owner.stored[name]
            static = inspect.getattr_static(owner.kind, name, None)
            function = plain(static)
            if function is not None:
                bare = isinstance(static, staticmethod)
                return Known(function) if bare else Method(owner, function)
            if isinstance(static, (int, float, str, bool, type, list, tuple, dict)):
                return Known(static)
            owner.stored[name] = Place(name)
            return owner.stored[name]
        if isinstance(owner, Parent):
            function = plain(getattr(super(owner.above, owner.owner.kind), name, None))
            return Method(owner.owner, function) if function is not None else None
        if isinstance(owner, Known):
            return _attribute_of(owner.value, name, None)
        return None

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        key = node.slice
        if isinstance(key, ast.Slice):
            for part in (key.lower, key.upper, key.step):
                self._as_number(self.value(part), "int")
            if isinstance(owner, Place):
                owner.use("slice")
            return owner if isinstance(owner, (Place, Shape)) else None
        if isinstance(key, ast.Tuple):
            if isinstance(owner, Place):
                dims = sum(not (isinstance(each, ast.Constant) and each.value in (None, ...)) for each in key.elts)
                owner.use("rank_at_least", dims)
                owner.use("tensor", "[]")
            for each in key.elts:
                self.value(each)
            return None
        index = self.value(key)
        constant = index.value if isinstance(index, Known) else None
        if isinstance(owner, Place):
            if isinstance(constant, str):
                owner.use("key", constant)
                return owner.part("key", constant)
            if isinstance(constant, int) and not isinstance(constant, bool):
                owner.use("index", constant)
                return owner.part("item", constant)
            owner.use("item")
            return owner.part("item")
        if isinstance(owner, Shape) and owner.index is None and isinstance(constant, int):
            owner.place.use("rank_at_least", constant + 1 if constant >= 0 else -constant)
            return Shape(owner.place, constant)
        if isinstance(owner, Sequence):
            if isinstance(constant, int) and -len(owner.items) <= constant < len(owner.items):
                return owner.items[constant]
            self._as_number(index, "int")
            return owner.items[0] if owner.items else None
        if isinstance(owner, Known):
            return self._item_of(owner.value, index)
        return None

    def _item_of(self, owner: Any, index: Any) -> Any:
        import torch

        if isinstance(index, Place):
            if isinstance(owner, dict) and owner:
                index.use("key_of", tuple(owner))
            elif isinstance(owner, (list, tuple, torch.nn.ModuleList)):
                index.use("int")
            return None
        plain_container = isinstance(
            owner, (list, tuple, dict, torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)
        )
        if plain_container:
            try:
                if isinstance(index, Known):
                    return Known(owner[index.value])
                first = list(owner.values()) if isinstance(owner, (dict, torch.nn.ModuleDict)) else list(owner)
                return Known(first[0])
            except (KeyError, IndexError, TypeError):
                return None
        return None

    def _call(self, node: ast.Call) -> Any:
        return self.calls.value(node)

    def _binop(self, node: ast.BinOp) -> Any:
        return self._arithmetic(self.value(node.left), self.value(node.right), node.op)

    def _arithmetic(self, left: Any, right: Any, operator: ast.operator) -> Any:
        sign = _OPERATORS.get(type(operator), "?")
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Place):
                if isinstance(other, Sequence):
                    one.use("int" if sign == "*" else "iterate")
                elif isinstance(other, Known) and isinstance(other.value, str):
                    one.use("string" if sign == "+" else "format")
                elif isinstance(other, Place):
                    one.use("arithmetic", sign)
                    one.use("with", other)
                else:
                    one.use("arithmetic", sign)
        if self.owner is not None and self.owner.real is not None and sign in "+-*/**%//":
            return left if isinstance(left, Place) else right if isinstance(right, Place) else None
        return None

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self.truth(value)
            return None
        if isinstance(value, Place):
            value.use("arithmetic" if not isinstance(node.op, ast.Invert) else "invert", "-")
        if isinstance(value, Known) and isinstance(value.value, (int, float)) and isinstance(node.op, ast.USub):
            return Known(-value.value)
        return value if isinstance(value, Place) else None

    def _boolop(self, node: ast.BoolOp) -> Any:
        values = [self.value(each) for each in node.values]
        for each in values[:-1] if isinstance(node.op, ast.Or) else values:
            self.truth(each)
        return next((each for each in values if isinstance(each, Place)), None) if isinstance(node.op, ast.Or) else None

    def _ifexp(self, node: ast.IfExp) -> Any:
        self.truth(self.value(node.test))
        body, other = self.value(node.body), self.value(node.orelse)
        for each in (body, other):
            if isinstance(each, Place):
                return each
        return body if body is not None else other

    def truth(self, value: Any) -> None:
        if isinstance(value, Place):
            value.use("truth")

    def _compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        for operator, each in zip(node.ops, node.comparators, strict=True):
            right = self.value(each)
            self._compared(left, operator, right)
            left = right
        return None

    def _compared(self, left: Any, operator: ast.cmpop, right: Any) -> None:
        if isinstance(operator, (ast.In, ast.NotIn)):
            choices = (
                [each.value for each in right.items if isinstance(each, Known)] if isinstance(right, Sequence) else ()
            )
            if isinstance(right, Known) and isinstance(right.value, (list, tuple, set, frozenset, dict, range)):
                choices = list(right.value)[:50]
            for choice in choices:
                self._compare_with(left, choice)
            if isinstance(right, Place) and isinstance(left, Known) and isinstance(left.value, str):
                right.use("contains", left.value)
            elif isinstance(right, Place):
                right.use("iterate")
            return
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Shape) and one.index is not None and isinstance(operator, (ast.Eq, ast.NotEq)):
                if isinstance(other, Known) and isinstance(other.value, int):
                    one.place.use("size", (one.index, other.value))
            elif isinstance(other, Known):
                if isinstance(operator, (ast.Is, ast.IsNot)) and other.value is None:
                    if isinstance(one, Place):
                        one.use("none")
                elif isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
                    self._compare_with(one, other.value)
                elif isinstance(one, Place):
                    one.use("order", other.value if isinstance(other.value, (int, float)) else None)
            elif isinstance(one, Place) and isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                one.use("order")

    def _compare_with(self, value: Any, constant: Any) -> None:
        if isinstance(value, Place):
            value.use("compare", constant)

    def _as_number(self, value: Any, kind: str) -> None:
        if isinstance(value, Place):
            value.use(kind)

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Any:
        items = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                inner = self.value(each.value)
                if isinstance(inner, Place):
                    inner.use("star")
                    items.append(inner.part("item"))
                elif isinstance(inner, Sequence):
                    items.extend(inner.items)
            else:
                items.append(self.value(each))
        known = [each.value for each in items if isinstance(each, Known)]
        if items and len(known) == len(items):
            return Known(known)
        return Sequence(items)

    _list = _tuple
    _set = _tuple

    def _dict(self, node: ast.Dict) -> Any:
        values = [self.value(each) for each in node.values]
        for key, value in zip(node.keys, values, strict=True):
            if key is None and isinstance(value, Place):
                value.use("mapping")
        keys = [each.value for each in node.keys if isinstance(each, ast.Constant)]
        return Known(dict.fromkeys(keys)) if keys else None

    def _joinedstr(self, node: ast.JoinedStr) -> Any:
        for each in node.values:
            inner = self.value(each.value) if isinstance(each, ast.FormattedValue) else None
            if isinstance(inner, Place):
                inner.use("format")
        return None

    def _lambda(self, node: ast.Lambda) -> Any:
        return Local(node, self)

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        before = dict(self.names)
        first, *rest = node.generators
        results = []
        for item in self.items(first.iter):
            self.store(first.target, item)
            for generator in rest:
                self.store(generator.target, self.items(generator.iter)[0])
            for test in [test for generator in node.generators for test in generator.ifs]:
                self.truth(self.value(test))
            results.append(self.value(node.elt))
        self.names = before
        return Sequence(results) if any(each is not None for each in results) else None

    _setcomp = _listcomp
    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Any:
        before = dict(self.names)
        for generator in node.generators:
            self.store(generator.target, self.items(generator.iter)[0])
        self.value(node.key)
        self.value(node.value)
        self.names = before
        return None

    def _namedexpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.store(node.target, value)
        return value


def _attribute_of(owner: Any, name: str, self_value: Self | None) -> Any:
    """An attribute of something that exists; properties are not run."""
    import torch

    if isinstance(owner, (ModuleType, type)):
        found = getattr(owner, name, NOTHING)
        return Known(found) if found is not NOTHING else None
    if isinstance(owner, torch.nn.Module):
        for where in (owner.__dict__, owner._modules, owner._parameters, owner._buffers):
            if name in where:
                return Known(where[name])
        function = plain(inspect.getattr_static(type(owner), name, None))
        if function is not None:
            return Method(self_value or Self(type(owner), owner), function)
        static = inspect.getattr_static(type(owner), name, None)
        return Known(static) if isinstance(static, (int, float, str, bool, list, tuple, dict)) else None
    values = getattr(owner, "__dict__", None)
    if isinstance(values, dict) and name in values:
        return Known(values[name])
    return None


def resolved(note: Any, function: Any) -> Any:
    """An annotation that was kept as text, evaluated where that works."""
    if not isinstance(note, str):
        return note
    try:
        return eval(note, getattr(function, "__globals__", {}))
    except Exception:
        return note


def _owner_class(kind: type, function: Any) -> type:
    for each in kind.__mro__:
        if any(plain(value) is function for value in vars(each).values()):
            return each
    return kind


def _loaded(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _parameters(node: FunctionNode) -> list[ast.arg]:
    args = node.args
    most = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return most + [each for each in (args.vararg, args.kwarg) if each is not None]


def _reading(node: FunctionNode, places: dict[str, Place], own: bool) -> Reading:
    args = node.args
    order = [each.arg for each in (*args.posonlyargs, *args.args)][1 if own else 0 :]
    named = [each.arg for each in args.kwonlyargs]
    rest = args.vararg.arg if args.vararg else None
    extra = args.kwarg.arg if args.kwarg else None
    return Reading(places, order, named, rest, extra)


def _defaults(function: Any) -> dict[str, Any]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    found = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return {**found, **(function.__kwdefaults__ or {})}


def _place_of(parameter: inspect.Parameter) -> Place:
    empty = inspect.Parameter.empty
    note = NOTHING if parameter.annotation is empty else parameter.annotation
    return Place(parameter.name, note, NOTHING if parameter.default is empty else parameter.default)
