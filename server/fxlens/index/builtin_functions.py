"""Python's own functions, as far as they are carried out here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from pathlib import PurePath
from typing import Any, cast

from . import configs
from .machine import Machine
from .naming import name_of
from .values import (
    NONE,
    OPEN,
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
    Module,
    Object,
    Operation,
    Partial,
    Sequence,
    Unknown,
    Value,
    lift,
    literal,
    truth,
)  # fmt: skip

Handler = Callable[[Machine, list[Value], dict[str, Value], ast.expr], Value | None]
ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_PURE: dict[str, Callable[..., Any]] = {
    "len": len, "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "set": set,
    "min": min, "max": max, "sum": sum, "abs": abs, "round": round, "divmod": divmod, "sorted": sorted, "any": any,
    "all": all, "repr": repr, "reversed": lambda many: list(reversed(many)), "frozenset": set, "ord": ord, "chr": chr,
    "slice": slice, "complex": complex, "bytes": lambda: b"",
}  # fmt: skip
_MOST_RANGE = 4096


def call(machine: Machine, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """The value of a call to a builtin that the table leaves, or that gave nothing there."""
    if name in _PURE and not keywords:
        try:
            return lift(_PURE[name](*map(literal, args)), machine.tick())
        except Unknown:
            pass
        except ERRORS:
            return Hole(name_of(node))
    first = args[0] if args else None
    if name in ("min", "max", "sum", "round", "abs") and args and all(map(_is_number, args)):
        return Apply(External(f"builtins.{name}"), args, {})
    if name in ("int", "float", "str", "bool") and len(args) == 1 and first is not None and _is_number(first):
        return first if isinstance(first, Hole) else Apply(External(f"builtins.{name}"), args, {})
    return Hole(name_of(node) if name not in ("getattr", "open", "input") else name)


def _is_number(value: Value) -> bool:
    """Whether a value may be a number of which something is known, or several."""
    if isinstance(value, Sequence):
        return value.whole and bool(value.items) and all(map(_is_number, value.items))
    return isinstance(value, (Hole, Apply, Attribute, Item, Operation, Const))


# ---- builtins that look at values which are not plain data


def _len(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if args and isinstance(args[0], (Sequence, Mapping)) and args[0].whole:
        return Const(len(args[0].items))
    if args and isinstance(args[0], Object):
        method = machine.symbols.method(args[0].kind.symbol, "__len__")
        return machine.call_method(args[0], method, [], {}) if method else None
    return None


def _remade(kind: str) -> Handler:
    def make(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
        if not args:
            return machine.new_list([], kind)
        items = machine.items_of(args[0])
        if items is None and isinstance(args[0], Sequence):
            return machine.new_list(list(args[0].items), kind, whole=False)
        return None if items is None else machine.new_list(items, kind)

    return make


def _dict(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    items: dict[Any, Value] = {}
    whole = OPEN not in keywords
    for each in args:
        if isinstance(each, Mapping):
            items.update(each.items)
            whole = whole and each.whole
            continue
        pairs = machine.items_of(each)
        whole = whole and pairs is not None
        for pair in pairs or ():
            inner = machine.items_of(pair)
            if inner is not None and len(inner) == 2 and isinstance(inner[0], Const):
                items[inner[0].value] = inner[1]
    items.update({name: value for name, value in keywords.items() if name != OPEN})
    return machine.new_dict(items, whole=whole)


def _range(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    try:
        found = range(*map(literal, args))
        if len(found) <= _MOST_RANGE:
            return machine.new_list([Const(each) for each in found])
    except (Unknown, *ERRORS):
        pass
    return Hole("range")


def _enumerate(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    start = args[1] if len(args) > 1 else keywords.get("start", Const(0))
    if items is None or not isinstance(start, Const) or not isinstance(start.value, int):
        return None
    return machine.new_list([machine.new_list([Const(at), x], "tuple") for at, x in enumerate(items, start.value)])


def _zip(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    every = [machine.items_of(each) for each in args]
    known = [each for each in every if each is not None]
    if len(known) < len(every):
        return None
    return machine.new_list([machine.new_list(list(row), "tuple") for row in zip(*known, strict=False)])


def _map(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    return None if items is None else machine.new_list([machine.call(args[0], [x], {}, node) for x in items[:256]])


def _filter(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    if items is None:
        return None
    answers = [truth(machine.call(args[0], [x], {}, node)) if not _is_none(args[0]) else truth(x) for x in items[:256]]
    return machine.new_list([x for x, yes in zip(items, answers, strict=False) if yes], whole=None not in answers)


def _reversed(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    return None if items is None else machine.new_list(items[::-1])


def _sorted(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    items = machine.items_of(args[0]) if args else None
    if items is None or "key" in keywords:
        return None
    try:
        found = sorted(map(literal, items), reverse=bool(truth(keywords.get("reverse", Const(False)))))
        return lift(found, machine.tick())
    except (Unknown, *ERRORS):
        return None


def _getattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    owner = args[0] if args else Hole("getattr")
    name = args[1] if len(args) > 1 else Hole("name")
    if not isinstance(name, Const) or not isinstance(name.value, str):
        if isinstance(owner, Module):
            return _all_of(machine, owner, None)
        return Hole(name_of(node.args[1]) if isinstance(node, ast.Call) and len(node.args) > 1 else "getattr")
    found = machine.attribute(owner, name.value)
    if isinstance(owner, Module) and isinstance(found, (Class, Function)):
        return _all_of(machine, owner, found)
    if isinstance(found, Hole):
        if len(args) > 2:
            return args[2]
        named = machine.workspace.named(name.value) if name.value[:1].isupper() else []
        if len(named) == 1:
            return machine.value_of(named[0])
    return found


def _all_of(machine: Machine, owner: Module, first: Value | None) -> Value:
    """What a module offers of the kind that is asked for: ``getattr(models, name)``."""
    facts = machine.symbols.facts.get(owner.file)
    if facts is None:
        return first or Hole("getattr")
    names = [*facts.imports, *(kind.name for kind in facts.classes), *(scope.name for scope in facts.scopes)]
    found: dict[Any, Value] = {}
    for name in names[:200]:
        symbol = machine.symbols.lookup(owner.file, name) if name and "." not in name else None
        if symbol is not None and symbol.kind in ("class", "function") and symbol not in found:
            if symbol.kind == "class" and not machine.symbols.is_module(symbol):
                continue
            if symbol.kind == "function" and isinstance(first, Class):
                continue
            found[symbol] = machine.value_of(symbol)
    others = [x for s, x in found.items() if not _is_same(x, first)]
    options = [first or Hole("getattr"), *others][:40]
    return Choice(options) if len(options) > 1 else options[0]


def _is_same(value: Value, other: Value | None) -> bool:
    if isinstance(value, Class) and isinstance(other, Class):
        return value.symbol == other.symbol
    if isinstance(value, Function) and isinstance(other, Function):
        return (value.file, value.name) == (other.file, other.name)
    return False


def _setattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        machine.set_attribute(args[0], args[1].value, args[2])
    return NONE


def _hasattr(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) == 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        owner, name = args[0], args[1].value
        if isinstance(owner, Mapping) and owner.whole:
            return Const(name in owner.items)
        if isinstance(owner, Object) and not machine.symbols.is_module(owner.kind.symbol):
            return Const(not isinstance(machine.attribute(owner, name), Hole))
    return None


def _vars(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if not args:
        names = {name: each for name, each in machine.frame.names.items() if isinstance(each, Value)}
        return machine.new_dict(names)
    owner = args[0]
    if isinstance(owner, Mapping):
        return Mapping(owner.items, "dict", owner.whole, owner.born, owner.origin)
    if isinstance(owner, Object):
        return Mapping(cast(dict[Hashable, Value], owner.fields), "dict", True, owner.born)
    return None


def _globals(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    path = machine.frame.file
    names: dict[str, Any] = machine.modules.get(path) or {}
    found = {name: each for name, each in names.items() if isinstance(each, Value)}
    for kind in machine.symbols.classes(path):
        if "." not in kind:
            found.setdefault(kind, machine.value_of(machine.symbols.lookup(path, kind)))  # type: ignore[arg-type]
    return machine.new_dict(found, whole=False)


def _isinstance(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) != 2:
        return None
    kinds = args[1].items if isinstance(args[1], Sequence) else [args[1]]
    answers = [_is_a(machine, args[0], kind) for kind in kinds]
    if True in answers:
        return Const(True)
    return None if None in answers else Const(False)


_TYPES = {
    "int": int, "float": float, "str": str, "bool": bool, "bytes": bytes, "list": list, "tuple": tuple, "dict": dict,
    "set": set, "complex": complex,
}  # fmt: skip


def _is_a(machine: Machine, value: Value, kind: Value) -> bool | None:
    if isinstance(kind, External):
        short = kind.name.rpartition(".")[2]
        if isinstance(value, Const):
            wanted = _TYPES.get(short)
            if wanted is not None:
                return isinstance(value.value, wanted)
            return short in ("Path", "PurePath", "PathLike") if isinstance(value.value, PurePath) else short == "Number"
        if isinstance(value, Sequence):
            return short in (value.kind, "Sequence", "Iterable", "Collection", "Sized")
        if isinstance(value, Mapping):
            plain = value.kind == "dict"
            return short in ("dict", "Mapping", "MutableMapping", "Dict") if plain else short not in _TYPES
        if isinstance(value, (Class, Function, Partial)):
            return short in ("Callable", "type", "partial", "FunctionType")
        if isinstance(value, Object):
            names = {each.name for each in machine.symbols.mro(value.kind.symbol) if each.kind == "external"}
            if kind.name == "torch.nn.Module":
                return machine.symbols.is_module(value.kind.symbol)
            return kind.name in names or (None if short[:1].isupper() and short not in ("Path", "Tensor") else False)
        return None
    if isinstance(kind, Class):
        if isinstance(value, Object):
            return kind.symbol in machine.symbols.mro(value.kind.symbol)
        return False if isinstance(value, (Const, Sequence)) else None
    return None


def _type(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value | None:
    if len(args) == 1 and isinstance(args[0], Object):
        return args[0].kind
    if len(args) == 1 and isinstance(args[0], Const) and type(args[0].value).__name__ in _TYPES:
        return External(f"builtins.{type(args[0].value).__name__}")
    return None


def _eval(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if args and isinstance(args[0], Const) and isinstance(args[0].value, str) and len(args[0].value) < 1000:
        try:
            return machine.value(ast.parse(args[0].value.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            pass
    return Hole("eval")


def _next(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    if args and isinstance(args[0], Sequence) and args[0].items:
        return args[0].items[0]
    return Hole(name_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "next")


def first(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return args[0] if args else Hole(name_of(node))


def nothing(machine: Machine, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    return NONE


TABLE: dict[str, Handler] = {
    **{f"builtins.{name}": handler for name, handler in {
        "len": _len, "list": _remade("list"), "tuple": _remade("tuple"), "set": _remade("set"), "dict": _dict,
        "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map, "filter": _filter, "sorted": _sorted,
        "getattr": _getattr, "setattr": _setattr, "hasattr": _hasattr, "vars": _vars, "locals": _vars,
        "globals": _globals, "isinstance": _isinstance, "type": _type, "eval": _eval, "next": _next, "iter": first,
        "print": nothing, "open": configs.opened, "exec": nothing, "reversed": _reversed,
    }.items()},
}  # fmt: skip


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None
