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


def call(machine: Machine, owner: v.Value, name: str, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    """``owner.name(*args, **keywords)``; a hole if unknown."""
    if isinstance(owner, v.Const):
        return _of_constant(machine, owner, name, args, keywords)
    if isinstance(owner, v.Sequence):
        found = _LIST[name](machine, owner, args) if name in _LIST else None
        return v.Hole(name) if found is None else found
    if isinstance(owner, v.Mapping):
        found = _DICT[name](machine, owner, args, keywords) if name in _DICT else None
        return v.Hole(name) if found is None else found
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


# ---- lists


def _append(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    if args and machine.may_change(owner, None):
        owner.items.append(args[0])
    return v.NONE


def _extend(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    more = machine.items_of(args[0]) if args else []
    if machine.may_change(owner, None):
        owner.whole = v.added(owner.items, more) and owner.whole
    return v.NONE


def _insert(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    if len(args) == 2 and isinstance(args[0], v.Const) and isinstance(args[0].value, int):
        if machine.may_change(owner, None):
            owner.items.insert(args[0].value, args[1])
    else:
        owner.whole = False
    return v.NONE


def _pop(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    at = args[0].value if args and isinstance(args[0], v.Const) else -1
    if not isinstance(at, int) or not -len(owner.items) <= at < len(owner.items):
        return v.Hole("item")
    return owner.items.pop(at) if machine.may_change(owner, None) else owner.items[at]


def _index(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    try:
        return v.Const([v.literal(each) for each in owner.items].index(v.literal(args[0])))
    except (v.Unknown, *_ERRORS):
        return v.Hole("index")


def _copy(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    return machine.new_list(list(owner.items), owner.kind, owner.whole)


def _reverse(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    if machine.may_change(owner, None):
        owner.items.reverse()
    return v.NONE


def _add(machine: Machine, owner: v.Sequence, args: list[v.Value]) -> v.Value:
    return _append(machine, owner, args)


_LIST: dict[str, Callable[[Machine, v.Sequence, list[v.Value]], v.Value]] = {
    "append": _append, "extend": _extend, "insert": _insert, "pop": _pop, "index": _index, "copy": _copy,
    "reverse": _reverse, "add": _add,
}  # fmt: skip


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
    try:
        if machine.may_change(owner, None):
            owner.items.pop(v.literal(args[0]), None)
    except (v.Unknown, *_ERRORS):
        owner.whole = False
    if len(args) == 1 and isinstance(found, v.Const) and found.value is None and isinstance(args[0], v.Const):
        return found if args[0].value in owner.items else v.Hole(str(args[0].value))
    return found


def _set_default(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    try:
        key = v.literal(args[0])
        if key not in owner.items and machine.may_change(owner, None):
            owner.items[key] = args[1] if len(args) > 1 else v.NONE
        return owner.items.get(key, v.Hole(str(key)))
    except (v.Unknown, *_ERRORS):
        return v.Hole("item")


def _update(machine: Machine, owner: v.Mapping, args: list[v.Value], keywords: dict[str, v.Value]) -> v.Value:
    more: dict[Any, v.Value] = dict(keywords)
    for each in args:
        if isinstance(each, v.Mapping):
            more = {**each.items, **more}
            owner.whole = owner.whole and each.whole
        elif not isinstance(each, v.Const):
            owner.whole = False
    for key, value in more.items():
        if machine.may_change(owner, owner.items.get(key)):
            old = owner.items.get(key)
            nested = isinstance(old, v.Mapping) and isinstance(value, v.Mapping) and owner.kind == "config"
            if nested:
                assert isinstance(old, v.Mapping) and isinstance(value, v.Mapping)
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
    "copy_and_resolve_references": _copy_dict, "lock": _nothing, "unlock": _nothing,
}  # fmt: skip
