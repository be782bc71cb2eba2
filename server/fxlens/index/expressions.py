"""Reading of expressions: known values are computed, unknown ones stay expressions or become holes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from . import argparsers, builtin_functions, configs
from . import values as v
from .machine import MOST_ITEMS, PLAIN_ERRORS, SYMBOLIC, Machine
from .naming import name_of, text_name

_METHODS = {kind: f"of_{kind.__name__}" for kind in ast.expr.__subclasses__()}


class Expressions(Machine):
    """``value(node)`` and what it needs."""

    def value(self, node: ast.expr) -> v.Value:
        self.step(node)
        method = getattr(self, _METHODS.get(node.__class__, ""), None)
        return v.Hole(name_of(node)) if method is None else method(node)

    # ---- leaves

    def of_Constant(self, node: ast.Constant) -> v.Value:
        try:
            return v.lift(node.value)
        except v.Unknown:
            return v.Hole("text")

    def of_Name(self, node: ast.Name) -> v.Value:
        found = self.read_name(node.id)
        if found is not None:
            return found
        if node.id == "__file__":
            return v.Const(self.frame.file)
        if node.id == "__name__":
            return v.Const("__main__")
        return v.External(f"builtins.{node.id}") if node.id in _BUILTINS else v.Hole(node.id)

    def of_Attribute(self, node: ast.Attribute) -> v.Value:
        base = self.value(node.value)
        found = self.attribute(base, node.attr)
        if isinstance(found, v.Hole):
            self.miss(base, node.attr)
        return found

    def miss(self, owner: v.Value, name: str) -> None:
        """Notes an attribute that a namespace lacks, where the code needs it."""
        if isinstance(owner, v.Mapping) and name not in owner.items and not (self.dead or self.frame.guarded):
            owner.missing[name] = None

    def of_Subscript(self, node: ast.Subscript) -> v.Value:
        return self.item(self.value(node.value), self.value(node.slice))

    def of_Slice(self, node: ast.Slice) -> v.Value:
        found = [v.NONE if part is None else self.value(part) for part in (node.lower, node.upper, node.step)]
        try:
            return v.Const(slice(*map(v.literal, found)))
        except v.Unknown:
            return v.Hole("slice")

    def of_JoinedStr(self, node: ast.JoinedStr) -> v.Value:
        text = ""
        try:
            for part in node.values:
                if isinstance(part, ast.Constant):
                    text += str(part.value)
                else:
                    assert isinstance(part, ast.FormattedValue)
                    text += format(_as_text(v.literal(self.value(part.value)), part.conversion), self._format_of(part))
                v.lift(text)  # if not too long
        except (v.Unknown, *PLAIN_ERRORS):
            return v.Hole("text")
        return v.Const(text)

    def _format_of(self, part: ast.FormattedValue) -> str:
        """Raises Unknown, also for very wide ones."""
        text = "" if part.format_spec is None else v.literal(self.value(part.format_spec))
        if _WIDE.search(text):
            raise v.Unknown
        return text

    def of_Lambda(self, node: ast.Lambda) -> v.Value:
        return v.Function(self.frame.file, f"{self.frame.name}.<lambda>", node, self.frame.names)

    def of_Starred(self, node: ast.Starred) -> v.Value:
        return self.value(node.value)

    def of_NamedExpr(self, node: ast.NamedExpr) -> v.Value:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def of_Await(self, node: ast.Await) -> v.Value:
        return self.value(node.value)

    def of_Yield(self, node: ast.Yield) -> v.Value:
        self.frame.returned.append(self.value(node.value) if node.value else v.NONE)
        return v.Hole("sent")

    def of_YieldFrom(self, node: ast.YieldFrom) -> v.Value:
        v.added(self.frame.returned, self.items_of(self.value(node.value)))
        return v.NONE

    # ---- displays

    def of_List(self, node: ast.List) -> v.Value:
        return self._display(node.elts, "list")

    def of_Tuple(self, node: ast.Tuple) -> v.Value:
        return self._display(node.elts, "tuple")

    def of_Set(self, node: ast.Set) -> v.Value:
        return self._display(node.elts, "set")

    def _display(self, elements: list[ast.expr], kind: str) -> v.Value:
        items: list[v.Value] = []
        whole = True
        for element in elements:
            if isinstance(element, ast.Starred):
                whole = v.added(items, self.items_of(self.value(element.value))) and whole
            else:
                items.append(self.value(element))
        return self.new_set(items, whole) if kind == "set" else self.new_list(items, kind, whole)

    def of_Dict(self, node: ast.Dict) -> v.Value:
        items: dict[Any, v.Value] = {}
        whole = True
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if isinstance(value, v.Mapping):
                    items.update(value.items)
                    whole = whole and value.whole
                else:
                    whole = False
                continue
            try:
                items[v.literal(self.value(key))] = value
            except (v.Unknown, TypeError):
                whole = False
        return self.new_dict(items, whole=whole)

    # ---- comprehensions

    def of_ListComp(self, node: ast.ListComp) -> v.Value:
        found: list[v.Value] = []
        whole = self._generate(node.generators, lambda: found.append(self.value(node.elt)))
        return self.new_list(found, whole=whole)

    def of_GeneratorExp(self, node: ast.GeneratorExp) -> v.Value:
        return self.of_ListComp(ast.ListComp(node.elt, node.generators))

    def of_SetComp(self, node: ast.SetComp) -> v.Value:
        made = self.of_ListComp(ast.ListComp(node.elt, node.generators))
        assert isinstance(made, v.Sequence)
        return self.new_set(made.items, made.whole)

    def of_DictComp(self, node: ast.DictComp) -> v.Value:
        found: dict[Any, v.Value] = {}
        missed: list[bool] = []

        def turn() -> None:
            key, value = self.value(node.key), self.value(node.value)
            try:
                found[v.literal(key)] = value
            except (v.Unknown, TypeError):
                missed.append(True)

        whole = self._generate(node.generators, turn)
        return self.new_dict(found, whole=whole and not missed)

    def _generate(self, generators: list[ast.comprehension], turn: Callable[[], None]) -> bool:
        """Runs ``turn`` for every combination; once, with holes, if the items are unknown. Returns whether all ran."""
        if not generators:
            turn()
            return True
        first, rest = generators[0], generators[1:]
        items = self.items_of(self.value(first.iter))
        whole = items is not None and len(items) <= MOST_ITEMS
        own = {part.id for part in ast.walk(first.target) if isinstance(part, ast.Name)}
        kept = {name: self.frame.names[name] for name in own if name in self.frame.names}
        for item in (items or [])[:MOST_ITEMS] if items is not None else [v.Hole(name_of(first.target))]:
            self.assign(first.target, item)
            answers = [v.truth(self.value(test)) for test in first.ifs]
            if all(answer is not False for answer in answers):
                whole = self._generate(rest, turn) and whole and None not in answers
        for name in own - kept.keys():
            self.frame.names.pop(name, None)
        self.frame.names.update(kept)
        return whole

    # ---- iteration and items

    def items_of(self, value: v.Value) -> list[v.Value] | None:
        if isinstance(value, v.Sequence):
            return list(value.items) if value.whole else None
        if isinstance(value, v.Mapping) and value.kind != "namespace":
            return [v.Const(key) for key in value.items] if value.whole else None
        if isinstance(value, v.Const) and isinstance(value.value, str):
            return [v.Const(each) for each in value.value]
        if isinstance(value, v.Apply) and isinstance(value.function, v.External):
            return _numbers(value.function.name, value.args)
        return None

    def item(self, base: v.Value, index: v.Value) -> v.Value:
        key = _key(index)
        if isinstance(base, v.Choice):
            return self.item(base.options[0], index)
        if isinstance(base, v.Sequence) and key is not _NO_KEY and (isinstance(key, (int, slice))):
            try:
                found = base.items[key]
            except (IndexError, TypeError, ValueError):
                return v.Hole("item")
            if isinstance(found, list):
                return self.new_list(found, base.kind, base.whole)
            return found
        if isinstance(base, v.Sequence) and base.items:
            return base.items[0] if len(base.items) == 1 else v.Hole("item")
        if isinstance(base, v.Mapping):
            return self.key_of(base, key)
        if isinstance(base, v.Class):
            return base  # Base[T]
        if isinstance(base, v.External) and base.name.endswith(".__dict__") and isinstance(key, str):
            return v.External(f"{base.name.removesuffix('__dict__')}{key}")
        if isinstance(base, v.Module) and isinstance(key, str):
            return self.attribute(base, key)
        if isinstance(base, v.Object):
            if (method := self.symbols.method(base.kind.symbol, "__getitem__")) is not None:
                bound = self.value_of(method)
                if isinstance(bound, v.Function):
                    bound = v.Function(bound.file, bound.name, bound.node, bound.env, method, base)
                    return self.call(bound, [index], {}, ast.Constant(None))
            return v.Hole(key if isinstance(key, str) else "item")
        if isinstance(base, v.Tool):
            return base.state.item(self, key) if hasattr(base.state, "item") else v.Hole("item")
        try:
            return v.lift(v.literal(base)[v.literal(index)])
        except (v.Unknown, *PLAIN_ERRORS):
            pass
        if isinstance(base, SYMBOLIC):
            return v.Item(base, index)
        return v.Hole(key if isinstance(key, str) else text_name(base))

    def key_of(self, base: v.Mapping, key: Any) -> v.Value:
        """The item of a mapping. For a table of classes or functions, all are returned, the requested one first, since
        any of them may be chosen."""
        callables = [
            each for each in base.items.values() if isinstance(each, (v.Class, v.Function, v.Partial, v.Choice))
        ]
        known: v.Value | None = None
        if key is not _NO_KEY:
            try:
                known = base.items.get(key)
            except TypeError:
                return v.Hole("item")
        if len(callables) >= 2 and len(callables) >= len(base.items) - 1 and base.kind == "dict":
            first = [known] if known is not None else []
            return v.Choice([*first, *(each for each in callables if each is not known)][:40])
        if known is not None:
            return known
        if base.sources and configs.narrow(self, base, key):
            return self.key_of(base, key)
        return v.Hole(key if isinstance(key, str) else "item")

    # ---- attributes

    def attribute(self, base: v.Value, name: str) -> v.Value:
        if isinstance(base, v.Hole):
            return v.Hole(name)
        if name == "__dict__" and isinstance(base, v.Module):
            return base  # `models.__dict__[name]`
        if isinstance(base, v.External):
            return argparsers.flag(self, name) if base.name.endswith("FLAGS") else v.External(f"{base.name}.{name}")
        if isinstance(base, v.Module):
            found = self.module_name(base.file, name)
            if found is None and name in ("items", "keys", "values"):
                return v.Method(builtin_functions.members(self, base), name)  # of its `__dict__`
            return v.Hole(name) if found is None else found
        if isinstance(base, v.Mapping):
            return self._of_mapping(base, name)
        if isinstance(base, v.Choice):
            options = [self.attribute(each, name) for each in base.options]
            known = [each for each in options if not isinstance(each, v.Hole)]
            return v.Choice(known) if len(known) > 1 else known[0] if known else v.Hole(name)
        if isinstance(base, v.Const) and isinstance(base.value, PurePath):
            part = getattr(base.value, name, None)
            if isinstance(part, (str, PurePath)):
                return v.Const(part)
        if isinstance(base, (v.Const, v.Sequence)):
            return v.Method(base, name)
        if isinstance(base, v.Tool):
            found = base.state.attribute(self, name) if hasattr(base.state, "attribute") else None
            return v.Method(base, name) if found is None else found
        if isinstance(base, SYMBOLIC):
            return v.Attribute(base, name)
        if isinstance(base, v.Partial):
            return {"func": base.function}.get(name, v.Hole(name))
        return self.attribute_of_code(base, name)

    def _of_mapping(self, base: v.Mapping, name: str) -> v.Value:
        if base.kind != "dict" and name in base.items:
            return base.items[name]
        if name == "__dict__":
            return v.Mapping(base.items, "dict", base.whole, base.born, base.origin)
        if base.kind != "dict" and base.sources and configs.narrow(self, base, name):
            return base.items[name]
        if base.kind == "namespace" or (not hasattr(dict, name) and name not in _CONFIG_METHODS):
            return v.Hole(name)
        return v.Method(base, name)


_NO_KEY = object()
_WIDE = re.compile(r"\d{4}")
_CONFIG_METHODS = {
    "clone", "freeze", "defrost", "merge_from_file", "merge_from_list", "merge_from_other_cfg", "to_dict", "merge",
    "set_new_allowed", "register_deprecated_key", "is_frozen", "to_container", "as_dict", "merge_from_dict", "lock",
    "unlock", "copy_and_resolve_references",
}  # fmt: skip
_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


def _numbers(name: str, args: list[v.Value]) -> list[v.Value] | None:
    """The items of ``torch.linspace(0, 0.1, 12)``."""
    try:
        given = [v.literal(each) for each in args]
        if name.endswith(".linspace") and len(given) == 3 and 0 < given[2] <= MOST_ITEMS:
            start, end, count = given
            return [v.Const(round(start + (end - start) * at / max(count - 1, 1), 7)) for at in range(count)]
        if name.endswith(".arange") and len(range(*given)) <= MOST_ITEMS:
            return [v.Const(each) for each in range(*given)]
    except (v.Unknown, *PLAIN_ERRORS):
        pass
    return None


def _key(index: v.Value) -> Any:
    try:
        found = v.literal(index)
        hash(found if not isinstance(found, slice) else None)
    except (v.Unknown, TypeError):
        return _NO_KEY
    return found


def _as_text(data: Any, conversion: int) -> Any:
    """``!r``, ``!s`` and ``!a`` of an f-string."""
    return (
        (repr if conversion == ord("r") else ascii if conversion == ord("a") else str)(data) if conversion > 0 else data
    )
