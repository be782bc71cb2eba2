"""Reading of expressions: what is known is computed, what is not stays an expression or becomes a hole."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from . import argparsers, configs
from .machine import MOST_ITEMS, PLAIN_ERRORS, SYMBOLIC, Machine
from .naming import name_of, text_name
from .values import (
    NONE,
    Apply,
    Attribute,
    Choice,
    Class,
    Const,
    External,
    Function,
    Hole,
    Item,
    Mapping,
    Method,
    Module,
    Object,
    Partial,
    Sequence,
    Tool,
    Unknown,
    Value,
    lift,
    literal,
    truth,
)

_METHODS = {kind: f"of_{kind.__name__}" for kind in ast.expr.__subclasses__()}


class Expressions(Machine):
    """``value(node)`` and what it needs."""

    def value(self, node: ast.expr) -> Value:
        self.step(node)
        method = getattr(self, _METHODS.get(node.__class__, ""), None)
        return Hole(name_of(node)) if method is None else method(node)

    # ---- leaves

    def of_Constant(self, node: ast.Constant) -> Value:
        return Const(node.value)

    def of_Name(self, node: ast.Name) -> Value:
        found = self.read_name(node.id)
        if found is not None:
            return found
        if node.id == "__file__":
            return Const(self.frame.file)
        if node.id == "__name__":
            return Const("__main__")
        return External(f"builtins.{node.id}") if node.id in _BUILTINS else Hole(node.id)

    def of_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr)

    def of_Subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.value(node.value), self.value(node.slice))

    def of_Slice(self, node: ast.Slice) -> Value:
        found = [NONE if part is None else self.value(part) for part in (node.lower, node.upper, node.step)]
        try:
            return Const(slice(*map(literal, found)))
        except Unknown:
            return Hole("slice")

    def of_JoinedStr(self, node: ast.JoinedStr) -> Value:
        text = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text.append(str(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            try:
                text.append(format(literal(self.value(part.value)), _format_of(part)))
            except (Unknown, *PLAIN_ERRORS):
                return Hole("text")
        return Const("".join(text))

    def of_Lambda(self, node: ast.Lambda) -> Value:
        return Function(self.frame.file, f"{self.frame.name}.<lambda>", node, self.frame.names)

    def of_Starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def of_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def of_Await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def of_Yield(self, node: ast.Yield) -> Value:
        self.frame.returned.append(self.value(node.value) if node.value else NONE)
        return Hole("sent")

    def of_YieldFrom(self, node: ast.YieldFrom) -> Value:
        found = self.items_of(self.value(node.value))
        self.frame.returned.extend(found or ())
        return NONE

    # ---- displays

    def of_List(self, node: ast.List) -> Value:
        return self._display(node.elts, "list")

    def of_Tuple(self, node: ast.Tuple) -> Value:
        return self._display(node.elts, "tuple")

    def of_Set(self, node: ast.Set) -> Value:
        return self._display(node.elts, "set")

    def _display(self, elements: list[ast.expr], kind: str) -> Value:
        items: list[Value] = []
        whole = True
        for element in elements:
            if isinstance(element, ast.Starred):
                inner = self.items_of(self.value(element.value))
                whole = whole and inner is not None
                items += inner or ()
            else:
                items.append(self.value(element))
        return self.new_list(items, kind, whole)

    def of_Dict(self, node: ast.Dict) -> Value:
        items: dict[Any, Value] = {}
        whole = True
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if isinstance(value, Mapping):
                    items.update(value.items)
                    whole = whole and value.whole
                else:
                    whole = False
                continue
            try:
                items[literal(self.value(key))] = value
            except (Unknown, TypeError):
                whole = False
        return self.new_dict(items, whole=whole)

    # ---- comprehensions

    def of_ListComp(self, node: ast.ListComp) -> Value:
        found: list[Value] = []
        whole = self._generate(node.generators, lambda: found.append(self.value(node.elt)))
        return self.new_list(found, whole=whole)

    def of_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return self.of_ListComp(ast.ListComp(node.elt, node.generators))

    def of_SetComp(self, node: ast.SetComp) -> Value:
        made = self.of_ListComp(ast.ListComp(node.elt, node.generators))
        assert isinstance(made, Sequence)
        made.kind = "set"
        return made

    def of_DictComp(self, node: ast.DictComp) -> Value:
        found: dict[Any, Value] = {}
        missed: list[bool] = []

        def turn() -> None:
            key, value = self.value(node.key), self.value(node.value)
            try:
                found[literal(key)] = value
            except (Unknown, TypeError):
                missed.append(True)

        whole = self._generate(node.generators, turn)
        return self.new_dict(found, whole=whole and not missed)

    def _generate(self, generators: list[ast.comprehension], turn: Callable[[], None]) -> bool:
        """Runs ``turn`` for every combination; once, with holes, where the items are not known.  Whether all ran."""
        if not generators:
            turn()
            return True
        first, rest = generators[0], generators[1:]
        items = self.items_of(self.value(first.iter))
        whole = items is not None and len(items) <= MOST_ITEMS
        kept = dict(self.frame.names)
        for item in (items or [])[:MOST_ITEMS] if items is not None else [Hole(name_of(first.target))]:
            self.assign(first.target, item)
            answers = [truth(self.value(test)) for test in first.ifs]
            if all(answer is not False for answer in answers):
                whole = self._generate(rest, turn) and whole and None not in answers
        for name in set(self.frame.names) - set(kept):
            del self.frame.names[name]
        self.frame.names.update(kept)
        return whole

    # ---- iteration and items

    def items_of(self, value: Value) -> list[Value] | None:
        if isinstance(value, Sequence):
            return list(value.items) if value.whole else None
        if isinstance(value, Mapping) and value.kind != "namespace":
            return [Const(key) for key in value.items] if value.whole else None
        if isinstance(value, Const) and isinstance(value.value, str):
            return [Const(each) for each in value.value]
        if isinstance(value, Apply) and isinstance(value.function, External):
            return _numbers(value.function.name, value.args)
        return None

    def item(self, base: Value, index: Value) -> Value:
        key = _key(index)
        if isinstance(base, Choice):
            return self.item(base.options[0], index)
        if isinstance(base, Sequence) and key is not _NO_KEY and (isinstance(key, (int, slice))):
            try:
                found = base.items[key]
            except (IndexError, TypeError, ValueError):
                return Hole("item")
            if isinstance(found, list):
                return self.new_list(found, base.kind, base.whole)
            return found
        if isinstance(base, Sequence) and base.items:
            return base.items[0] if len(base.items) == 1 else Hole("item")
        if isinstance(base, Mapping):
            return self.key_of(base, key)
        if isinstance(base, Class):
            return base  # Base[T]
        if isinstance(base, Object):
            if (method := self.symbols.method(base.kind.symbol, "__getitem__")) is not None:
                bound = self.value_of(method)
                if isinstance(bound, Function):
                    bound = Function(bound.file, bound.name, bound.node, bound.env, method, base)
                    return self.call(bound, [index], {}, ast.Constant(None))
            return Hole(key if isinstance(key, str) else "item")
        if isinstance(base, Tool):
            return base.state.item(self, key) if hasattr(base.state, "item") else Hole("item")
        try:
            return lift(literal(base)[literal(index)])
        except (Unknown, *PLAIN_ERRORS):
            pass
        if isinstance(base, SYMBOLIC):
            return Item(base, index)
        return Hole(key if isinstance(key, str) else text_name(base))

    def key_of(self, base: Mapping, key: Any) -> Value:
        """The item of a mapping.  Of a table of classes or functions all are given, the asked one first: any of them
        may be asked for another day."""
        callables = [each for each in base.items.values() if isinstance(each, (Class, Function, Partial, Choice))]
        known: Value | None = None
        if key is not _NO_KEY:
            try:
                known = base.items.get(key)
            except TypeError:
                return Hole("item")
        if len(callables) >= 2 and len(callables) >= len(base.items) - 1 and base.kind == "dict":
            first = [known] if known is not None else []
            return Choice([*first, *(each for each in callables if each is not known)][:40])
        if known is not None:
            return known
        if base.sources and configs.narrow(self, base, key):
            return self.key_of(base, key)
        return Hole(key if isinstance(key, str) else "item")

    # ---- attributes

    def attribute(self, base: Value, name: str) -> Value:
        if isinstance(base, Hole):
            return Hole(name)
        if isinstance(base, External):
            return argparsers.flag(self, name) if base.name.endswith("FLAGS") else External(f"{base.name}.{name}")
        if isinstance(base, Module):
            found = self.module_name(base.file, name)
            return Hole(name) if found is None else found
        if isinstance(base, Mapping):
            return self._of_mapping(base, name)
        if isinstance(base, Choice):
            options = [self.attribute(each, name) for each in base.options]
            known = [each for each in options if not isinstance(each, Hole)]
            return Choice(known) if len(known) > 1 else known[0] if known else Hole(name)
        if isinstance(base, Const) and isinstance(base.value, PurePath):
            part = getattr(base.value, name, None)
            if isinstance(part, (str, PurePath)):
                return Const(part)
        if isinstance(base, (Const, Sequence)):
            return Method(base, name)
        if isinstance(base, Tool):
            found = base.state.attribute(self, name) if hasattr(base.state, "attribute") else None
            return Method(base, name) if found is None else found
        if isinstance(base, SYMBOLIC):
            return Attribute(base, name)
        if isinstance(base, Partial):
            return {"func": base.function}.get(name, Hole(name))
        return self.attribute_of_code(base, name)

    def _of_mapping(self, base: Mapping, name: str) -> Value:
        if base.kind != "dict" and name in base.items:
            return base.items[name]
        if name == "__dict__":
            return Mapping(base.items, "dict", base.whole, base.born, base.origin)
        if base.kind != "dict" and base.sources and configs.narrow(self, base, name):
            return base.items[name]
        if base.kind == "namespace" or (not hasattr(dict, name) and name not in _CONFIG_METHODS):
            base.missing[name] = None
            return Hole(name)
        return Method(base, name)


_NO_KEY = object()
_CONFIG_METHODS = {
    "clone", "freeze", "defrost", "merge_from_file", "merge_from_list", "merge_from_other_cfg", "to_dict", "merge",
    "set_new_allowed", "register_deprecated_key", "is_frozen", "to_container", "as_dict", "merge_from_dict", "lock",
    "unlock", "copy_and_resolve_references",
}  # fmt: skip
_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def _numbers(name: str, args: list[Value]) -> list[Value] | None:
    """What iterating over ``torch.linspace(0, 0.1, 12)`` gives."""
    try:
        given = [literal(each) for each in args]
        if name.endswith(".linspace") and len(given) == 3 and 0 < given[2] <= MOST_ITEMS:
            start, end, count = given
            return [Const(round(start + (end - start) * at / max(count - 1, 1), 7)) for at in range(count)]
        if name.endswith(".arange") and len(range(*given)) <= MOST_ITEMS:
            return [Const(each) for each in range(*given)]
    except (Unknown, *PLAIN_ERRORS):
        pass
    return None


def _key(index: Value) -> Any:
    try:
        found = literal(index)
        hash(found if not isinstance(found, slice) else None)
    except (Unknown, TypeError):
        return _NO_KEY
    return found


def _format_of(part: ast.FormattedValue) -> str:
    spec = part.format_spec
    texts = (
        [each.value for each in spec.values if isinstance(each, ast.Constant)]
        if isinstance(spec, ast.JoinedStr)
        else []
    )
    text = "".join(map(str, texts))
    return text if len(text) < 10 and not any(len(run) > 3 for run in text.split(".")) else ""
