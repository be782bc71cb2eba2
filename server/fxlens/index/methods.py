"""Methods of strings, lists, dicts, configurations and paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from . import configs
from . import values as v
from .machine import Machine

_OF_TEXT = {
    "split", "rsplit", "lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "join",
    "title", "capitalize", "format", "isdigit", "count", "find", "rfind", "index", "partition", "rpartition",
    "splitlines", "removeprefix", "removesuffix", "isalpha", "isnumeric", "encode", "decode", "swapcase",
    "isidentifier",
}  # fmt: skip
_OF_PATH = {"with_suffix", "with_name", "joinpath", "relative_to", "as_posix", "with_stem", "is_absolute", "match"}
_SAME_PATH = {"resolve", "absolute", "expanduser"}
_ERRORS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
_MOST_TEXT = 4096
_WIDE = re.compile(r"\d{4}|\{[^{}]+\{")  # `"{:9999}".format(3)`, `"{:{}}".format(3, 9999)`
_NOWHERE = ast.Constant(None)
Keywords = dict[str, v.Value]


def call(machine: Machine, owner: v.Value, name: str, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    """``owner.name(*args, **keywords)``; a hole if unknown."""
    if isinstance(owner, v.Const):
        return _of_constant(machine, owner, name, args, keywords)
    if isinstance(owner, v.Sequence):
        return _of_sequence(machine, owner, name, args, keywords)
    if isinstance(owner, v.Mapping):
        if name in _DICT:
            return _DICT[name](machine, owner, args, keywords)
        if name in _CHANGING_DICTS:
            machine.forget(owner)
        return v.Hole(name)
    return v.Hole(name)


def _of_constant(
    machine: Machine, owner: v.Const, name: str, args: list[v.Value], keywords: dict[str, v.Value]
) -> v.Value:
    data = owner.value
    if isinstance(data, PurePath):
        if name in _SAME_PATH:
            return owner
        if name in ("open", "read_text"):
            opened = configs.opened(machine, [owner], {}, _NOWHERE)
            return opened
        allowed = _OF_PATH
    else:
        allowed = _OF_TEXT if isinstance(data, (str, bytes)) else {"bit_length", "is_integer"}
    if name == "item" and isinstance(data, (int, float)):
        return owner
    if name not in allowed:
        return v.Hole(name)
    try:
        given = [v.literal(each) for each in args]
        named = {key: v.literal(each) for key, each in keywords.items()}
        if isinstance(data, (str, bytes)) and _is_large(data, name, given):
            return v.Hole(name)
        return v.lift(getattr(data, name)(*given, **named), machine.tick())
    except (v.Unknown, *_ERRORS):
        return v.Hole(name)


def _is_large(data: Any, name: str, given: list[Any]) -> bool:
    """Whether a string method may return a huge result."""
    if len(data) > _MOST_TEXT or (name == "format" and _WIDE.search(data)):
        return True
    if name == "join":
        return sum(len(data) + len(each) for each in given[0]) > v.MOST_TEXT
    return name == "replace" and len(data) * len(given[1]) > v.MOST_TEXT


# ---- lists and sets


def _append(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items.append(args[0])
    return v.NONE


def _extend(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.whole = v.added(owner.items, machine.items_of(args[0])) and owner.whole
    return v.NONE


def _insert(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items.insert(v.literal(args[0]), args[1])
    return v.NONE


def _pop(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    return owner.items.pop(*map(v.literal, args)) if owner.items or owner.whole else v.Hole("item")


def _clear(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items.clear()
    owner.whole = True
    return v.NONE


def _remove(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    del owner.items[v.literal(owner).index(v.literal(args[0]))]
    return v.NONE


def _reverse(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items.reverse()
    return v.NONE


def _sort(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items[:] = sorted_values(machine, machine.known_items(owner), keywords)
    return v.NONE


def sorted_values(machine: Machine, items: list[v.Value], keywords: Keywords) -> list[v.Value]:
    """``sorted(items, key=…, reverse=…)``. Raises Unknown, and what comparing raises."""
    key, backwards = keywords.get("key", v.NONE), v.truth(keywords.get("reverse", v.Const(False)))
    if backwards is None or keywords.keys() - {"key", "reverse"}:
        raise v.Unknown
    is_plain = isinstance(key, v.Const)
    ranks = [v.literal(each if is_plain else machine.call(key, [each], {}, _NOWHERE)) for each in items]
    order = sorted(range(len(items)), key=ranks.__getitem__, reverse=backwards)
    return [items[at] for at in order]


def _add(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    made = machine.new_set([*owner.items, args[0]])
    owner.items[:], owner.whole = made.items, made.whole and owner.whole
    return v.NONE


def _update_set(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    made = machine.new_set([*owner.items, *(item for each in args for item in machine.known_items(each))])
    owner.items[:], owner.whole = made.items, made.whole and owner.whole
    return v.NONE


def _discard(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    owner.items[:] = [each for each in machine.known_items(owner) if v.literal(each) != v.literal(args[0])]
    return v.NONE


def _copy(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
    return machine.new_list(list(owner.items), owner.kind, owner.whole)


def _computed(name: str) -> _OfList:
    """A method that changes nothing, of known items."""

    def call_it(machine: Machine, owner: v.Sequence, args: list[v.Value], keywords: Keywords) -> v.Value:
        given = {key: v.literal(each) for key, each in keywords.items()}
        return v.lift(getattr(v.literal(owner), name)(*map(v.literal, args), **given), machine.tick())

    return call_it


_OfList = Callable[[Machine, v.Sequence, list[v.Value], Keywords], v.Value]
_CHANGING: dict[str, dict[str, _OfList]] = {
    "list": {
        "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "reverse": _reverse, "sort": _sort,
        "remove": _remove, "clear": _clear,
    },
    "set": {"add": _add, "update": _update_set, "discard": _discard, "remove": _discard, "clear": _clear},
    "tuple": {},
}  # fmt: skip
_READING: dict[str, _OfList] = {
    "copy": _copy,
    **{name: _computed(name) for name in (
        "index", "count", "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset",
        "isdisjoint",
    )},
}  # fmt: skip


def _of_sequence(machine: Machine, owner: v.Sequence, name: str, args: list[v.Value], keywords: Keywords) -> v.Value:
    reading = _READING.get(name)
    try:
        if reading is not None:
            return reading(machine, owner, args, keywords)
        machine.changes(owner)
        return _CHANGING[owner.kind][name](machine, owner, args, keywords)
    except (v.Unknown, *_ERRORS):
        if reading is None and owner.kind != "tuple":
            machine.forget(owner)  # whatever it does
        return v.Hole(name)


# ---- dicts and configurations


def _get(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    default = args[1] if len(args) > 1 else keywords.get("default", v.NONE)
    try:
        key = v.literal(args[0])
        hash(key)
    except (v.Unknown, *_ERRORS):
        return machine.item(owner, args[0]) if args else v.NONE
    if key in owner.items or (owner.sources and configs.narrow(machine, owner, key)):
        return machine.item(owner, args[0])
    return default if owner.whole or len(args) > 1 else v.Hole(str(key))


def _pop_key(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    found = _get(machine, owner, args, keywords)
    machine.changes(owner)
    try:
        owner.items.pop(v.literal(args[0]), None)
    except (v.Unknown, *_ERRORS):
        owner.whole = False
    if len(args) == 1 and isinstance(found, v.Const) and found.value is None and isinstance(args[0], v.Const):
        return found if args[0].value in owner.items else v.Hole(str(args[0].value))
    return found


def _set_default(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    try:
        key = v.literal(args[0])
        machine.changes(owner)
        if key not in owner.items:
            owner.items[key] = args[1] if len(args) > 1 else v.NONE
        return owner.items.get(key, v.Hole(str(key)))
    except (v.Unknown, *_ERRORS):
        return v.Hole("item")


def _update(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    machine.changes(owner)
    more: dict[Any, v.Value] = dict(keywords)
    owner.whole = owner.whole and more.pop(v.OPEN, None) is None
    for each in args:
        if isinstance(each, v.Mapping):
            more = {**each.items, **more}
            owner.whole = owner.whole and each.whole
        elif not isinstance(each, v.Const):
            owner.whole = False
    for key, value in more.items():
        old = owner.items.get(key)
        if isinstance(old, v.Mapping) and isinstance(value, v.Mapping) and owner.kind == "config":
            _update(machine, old, [value], {})
        else:
            owner.items[key] = value
    return v.NONE


def _items(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    pairs: list[v.Value] = [machine.new_list([v.Const(key), value], "tuple") for key, value in owner.items.items()]
    return machine.new_list(pairs, whole=owner.whole)


def _keys(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_list([v.Const(key) for key in owner.items], whole=owner.whole)


def _values(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_list(list(owner.items.values()), whole=owner.whole)


def _copy_dict(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_dict(dict(owner.items), owner.kind, owner.whole, owner.origin)


def _clone(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    from .values import copied

    made = copied(owner, {})
    made.born = machine.tick()  # type: ignore[attr-defined]
    return made


def _clear_dict(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    machine.forget(owner)
    owner.whole = True
    return v.NONE


def _pop_item(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    machine.changes(owner)
    if not owner.whole or not owner.items:
        return v.Hole("item")
    key, value = owner.items.popitem()
    return machine.new_list([v.Const(key), value], "tuple")


def _nothing(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return v.NONE


def _merge_file(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    more = configs.load(machine, args[:1], {}, _NOWHERE)
    return _update(machine, owner, [more], {}) if isinstance(more, v.Mapping) else v.NONE


def _to_dict(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    return machine.new_dict(dict(owner.items), "dict", owner.whole, owner.origin)


_DICT: dict[str, Callable[[Machine, v.Mapping, list[v.Value], dict[str, v.Value]], v.Value]] = {
    "get": _get, "pop": _pop_key, "setdefault": _set_default, "update": _update, "items": _items, "keys": _keys,
    "values": _values, "copy": _copy_dict, "clone": _clone, "freeze": _nothing, "defrost": _nothing,
    "merge_from_list": _nothing, "set_new_allowed": _nothing, "merge_from_other_cfg": _update, "merge": _update,
    "merge_from_file": _merge_file, "to_dict": _to_dict, "to_container": _to_dict, "as_dict": _to_dict,
    "clear": _clear_dict, "popitem": _pop_item, "copy_and_resolve_references": _copy_dict,
    "lock": _nothing, "unlock": _nothing,
}  # fmt: skip
_CHANGING_DICTS = {"merge_from_dict", "move_to_end", "subtract", "__setitem__", "__delitem__"}
"""Methods of dicts and configurations that are not read."""
