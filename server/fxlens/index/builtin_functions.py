"""Python's built-in functions, as far as they are evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

from . import configs, kinds, methods
from . import values as v
from .machine import MOST_ITEMS, Machine
from .naming import name_of
from .symbols import Symbol

Handler = Callable[[Machine, list[v.Value], dict[str, v.Value], ast.expr], v.Value | None]
ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
_MOST_COPIED = 1 << 20


def _sum(many: Any, start: Any = 0) -> Any:
    if isinstance(start, (list, tuple)) and len(many) * sum(map(len, many)) > _MOST_COPIED:
        raise ValueError  # each addition copies the list
    return sum(many, start)


def _round(number: Any, ndigits: Any = None) -> Any:
    return round(number, ndigits if ndigits is None else max(ndigits, -400))  # round() computes 10**-digits


_PURE: dict[str, Callable[..., Any]] = {
    "len": len, "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "set": set,
    "min": min, "max": max, "sum": _sum, "abs": abs, "round": _round, "divmod": divmod, "sorted": sorted,
    "any": any, "all": all, "repr": repr, "reversed": lambda many: list(reversed(many)), "frozenset": set,
    "ord": ord, "chr": chr, "slice": slice, "complex": complex, "bytes": lambda: b"",
}  # fmt: skip
_MOST_RANGE = 4096


def call(machine: Machine, name: str, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    """The value of a call to a builtin that the table lacks or could not evaluate."""
    if name in _PURE:
        try:
            given = {key: v.literal(each) for key, each in keywords.items()}
            return v.lift(_PURE[name](*map(v.literal, args), **given), machine.tick())
        except v.Unknown:
            pass
        except ERRORS:
            return v.Hole(name_of(node))
    first = args[0] if args else None
    if not keywords and name in ("min", "max", "sum", "round", "abs") and args and all(map(_is_number, args)):
        return v.Apply(v.External(f"builtins.{name}"), args, {})
    if not keywords and name in ("int", "float", "str", "bool") and len(args) == 1 and first and _is_number(first):
        return first if isinstance(first, v.Hole) else v.Apply(v.External(f"builtins.{name}"), args, {})
    return v.Hole(name_of(node) if name not in ("getattr", "open", "input") else name)


def _is_number(value: v.Value) -> bool:
    """Whether a value may be a number, or several, about which something is known."""
    if isinstance(value, v.Sequence):
        return value.whole and bool(value.items) and all(map(_is_number, value.items))
    return isinstance(value, (v.Hole, v.Apply, v.Attribute, v.Item, v.Operation, v.Const))


# ---- builtins that take values other than plain data


def _len(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if args and isinstance(args[0], (v.Sequence, v.Mapping)) and args[0].whole:
        return v.Const(len(args[0].items))
    if args and isinstance(args[0], v.Object):
        method = machine.symbols.method(args[0].kind.symbol, "__len__")
        return machine.call_method(args[0], method, [], {}) if method else None
    return None


def _remade(kind: str) -> Handler:
    def make(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
        if not args:
            return machine.new_list([], kind)
        items, whole = machine.items_of(args[0]), True
        if items is None and isinstance(args[0], v.Sequence):
            items, whole = list(args[0].items), False
        if items is None:
            return None
        return machine.new_set(items, whole) if kind == "set" else machine.new_list(items, kind, whole)

    return make


def _dict(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    items: dict[Any, v.Value] = {}
    whole = v.OPEN not in keywords
    for each in args:
        if isinstance(each, v.Mapping):
            items.update(each.items)
            whole = whole and each.whole
            continue
        pairs = machine.items_of(each)
        whole = whole and pairs is not None
        for pair in pairs or ():
            inner = machine.items_of(pair)
            if inner is not None and len(inner) == 2 and isinstance(inner[0], v.Const):
                items[inner[0].value] = inner[1]
    items.update({name: value for name, value in keywords.items() if name != v.OPEN})
    return machine.new_dict(items, whole=whole)


def _range(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    try:
        found = range(*map(v.literal, args))
        if len(found) <= _MOST_RANGE:
            return machine.new_list([v.Const(each) for each in found])
    except (v.Unknown, *ERRORS):
        pass
    return v.Hole("range")


def _enumerate(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    items = machine.items_of(args[0]) if args else None
    start = args[1] if len(args) > 1 else keywords.get("start", v.Const(0))
    if items is None or not isinstance(start, v.Const) or not isinstance(start.value, int):
        return None
    return machine.new_list([machine.new_list([v.Const(at), x], "tuple") for at, x in enumerate(items, start.value)])


def _zip(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    every = [machine.items_of(each) for each in args]
    known = [each for each in every if each is not None]
    if len(known) < len(every):
        return None
    return machine.new_list([machine.new_list(list(row), "tuple") for row in zip(*known, strict=False)])


def _map(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    if items is None:
        return None
    found = [machine.call(args[0], [x], {}, node) for x in items[:MOST_ITEMS]]
    return machine.new_list(found, whole=len(items) <= MOST_ITEMS)


def _filter(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    items = machine.items_of(args[1]) if len(args) == 2 else None
    if items is None:
        return None
    answers = [v.truth(x if _is_none(args[0]) else machine.call(args[0], [x], {}, node)) for x in items[:MOST_ITEMS]]
    whole = None not in answers and len(items) <= MOST_ITEMS
    return machine.new_list([x for x, yes in zip(items, answers, strict=False) if yes], whole=whole)


def _reversed(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    items = machine.items_of(args[0]) if args else None
    return None if items is None else machine.new_list(items[::-1])


def _sorted(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    try:
        return machine.new_list(methods.sorted_values(machine, machine.known_items(args[0]), keywords))
    except (v.Unknown, *ERRORS):
        return v.Hole(name_of(node))


def _extreme(backwards: bool) -> Handler:
    """``min`` or ``max`` with a key; without, the call of plain data."""

    def find(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
        if "key" not in keywords:
            return None
        given = {"key": keywords["key"], "reverse": v.Const(backwards)}
        try:
            items = machine.known_items(args[0]) if len(args) == 1 else args
            # Of equals, both take the first.
            return methods.sorted_values(machine, items, given)[0] if items else keywords["default"]
        except (v.Unknown, *ERRORS):
            return v.Hole(name_of(node))

    return find


def _getattr(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    owner = args[0] if args else v.Hole("getattr")
    name = args[1] if len(args) > 1 else v.Hole("name")
    if not isinstance(name, v.Const) or not isinstance(name.value, str):
        if isinstance(owner, v.Module):
            return _all_of(machine, owner, None)
        return v.Hole(name_of(node.args[1]) if isinstance(node, ast.Call) and len(node.args) > 1 else "getattr")
    found = machine.attribute(owner, name.value)
    if len(args) == 2:
        machine.miss(owner, name.value)
    if isinstance(owner, v.Module) and isinstance(found, (v.Class, v.Function)):
        return _all_of(machine, owner, found)
    if isinstance(found, v.Hole):
        if len(args) > 2:
            return args[2]
        named = machine.workspace.named(name.value) if name.value[:1].isupper() else []
        if len(named) == 1:
            return machine.value_of(named[0])
    return found


def _offers(machine: Machine, owner: v.Module) -> Iterator[tuple[str, Symbol]]:
    """The classes and functions of a module by name."""
    facts = machine.symbols.facts.get(owner.file)
    if facts is None:
        return
    names = [*facts.imports, *(kind.name for kind in facts.classes), *(scope.name for scope in facts.scopes)]
    for name in names[:200]:
        symbol = machine.symbols.lookup(owner.file, name) if name and "." not in name else None
        if symbol is not None and symbol.kind in ("class", "function"):
            yield name, symbol


def members(machine: Machine, owner: v.Module) -> v.Mapping:
    """``module.__dict__``, for code that looks up a class in it; other values are omitted."""
    return machine.new_dict({name: machine.value_of(symbol) for name, symbol in _offers(machine, owner)}, whole=True)


def _getmembers(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    """``inspect.getmembers(module, inspect.isclass)``."""
    if not args or not isinstance(args[0], v.Module):
        return None
    kind = v.Class if len(args) > 1 else v.Value
    pairs = [(name, each) for name, each in members(machine, args[0]).items.items() if isinstance(each, kind)]
    return machine.new_list([machine.new_list([v.Const(name), each], "tuple") for name, each in pairs])


def _all_of(machine: Machine, owner: v.Module, first: v.Value | None) -> v.Value:
    """Members of a module of the requested kind: ``getattr(models, name)``."""
    found: dict[Any, v.Value] = {}
    for _, symbol in _offers(machine, owner):
        if symbol not in found:
            if symbol.kind == "class" and not machine.symbols.is_module(symbol):
                continue
            if symbol.kind == "function" and isinstance(first, v.Class):
                continue
            found[symbol] = machine.value_of(symbol)
    others = [x for s, x in found.items() if not _is_same(x, first)]
    options = [first or v.Hole("getattr"), *others][:40]
    return v.Choice(options) if len(options) > 1 else options[0]


def _is_same(value: v.Value, other: v.Value | None) -> bool:
    if isinstance(value, v.Class) and isinstance(other, v.Class):
        return value.symbol == other.symbol
    if isinstance(value, v.Function) and isinstance(other, v.Function):
        return (value.file, value.name) == (other.file, other.name)
    return False


def _setattr(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    if len(args) == 3 and isinstance(args[1], v.Const) and isinstance(args[1].value, str):
        machine.set_attribute(args[0], args[1].value, args[2])
    return v.NONE


def _hasattr(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if len(args) == 2 and isinstance(args[1], v.Const) and isinstance(args[1].value, str):
        owner, name = args[0], args[1].value
        if isinstance(owner, v.Mapping) and owner.whole:
            return v.Const(name in owner.items)
        if isinstance(owner, v.Object) and not machine.symbols.is_module(owner.kind.symbol):
            return v.Const(not isinstance(machine.attribute(owner, name), v.Hole))
    return None


def _vars(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value | None:
    if not args:
        names = {name: each for name, each in machine.frame.names.items() if isinstance(each, v.Value)}
        return machine.new_dict(names)
    owner = args[0]
    if isinstance(owner, v.Mapping):
        return v.Mapping(owner.items, "dict", owner.whole, owner.born, owner.origin)
    if isinstance(owner, v.Object):
        return v.Mapping(cast(dict[Hashable, v.Value], owner.fields), "dict", True, owner.born)
    return None


def _globals(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    path = machine.frame.file
    names: dict[str, Any] = machine.modules.get(path) or {}
    found = {name: each for name, each in names.items() if isinstance(each, v.Value)}
    for kind in machine.symbols.classes(path):
        if "." not in kind:
            found.setdefault(kind, machine.value_of(machine.symbols.lookup(path, kind)))  # type: ignore[arg-type]
    return machine.new_dict(found, whole=False)


def _eval(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    if args and isinstance(args[0], v.Const) and isinstance(args[0].value, str) and len(args[0].value) < 1000:
        try:
            return machine.value(ast.parse(args[0].value.strip(), mode="eval").body)
        except (SyntaxError, ValueError, MemoryError):
            pass
    return v.Hole("eval")


def _next(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    is_fresh = (
        isinstance(node, ast.Call) and bool(node.args) and not isinstance(node.args[0], (ast.Name, ast.Attribute))
    )
    if is_fresh and args and isinstance(args[0], v.Sequence) and args[0].items:
        return args[0].items[0]
    return v.Hole(name_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "next")


def first(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return args[0] if args else v.Hole(name_of(node))


def nothing(machine: Machine, args: list[v.Value], keywords: dict[str, v.Value], node: ast.expr) -> v.Value:
    return v.NONE


TABLE: dict[str, Handler] = {
    **{f"builtins.{name}": handler for name, handler in {
        "len": _len, "list": _remade("list"), "tuple": _remade("tuple"), "set": _remade("set"), "dict": _dict,
        "range": _range, "enumerate": _enumerate, "zip": _zip, "map": _map, "filter": _filter, "sorted": _sorted,
        "getattr": _getattr, "setattr": _setattr, "hasattr": _hasattr, "vars": _vars, "locals": _vars,
        "globals": _globals, "isinstance": kinds.is_instance, "type": kinds.type_of, "eval": _eval, "next": _next,
        "iter": first, "issubclass": kinds.is_subclass, "min": _extreme(False), "max": _extreme(True),
        "print": nothing, "open": configs.opened, "exec": nothing, "reversed": _reversed,
    }.items()},
    "inspect.getmembers": _getmembers,
}  # fmt: skip


def _is_none(value: v.Value) -> bool:
    return isinstance(value, v.Const) and value.value is None
