"""`unify` and `reify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .variable import isvar

__all__ = ["reify", "unify"]


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """``e`` with each variable replaced by what ``s`` says, also in tuples, lists, dicts and iterators."""
    if isvar(e):
        return reify(s[e], s) if e in s else e
    if type(e) in (tuple, list):
        return type(e)(reify(item, s) for item in e)
    if isinstance(e, dict):
        return {key: reify(value, s) for key, value in e.items()}
    if isinstance(e, Iterator):
        return map(lambda item: reify(item, s), e)
    return e


def unify(u: Any, v: Any, s: dict[Any, Any] | None = None) -> dict[Any, Any] | bool:
    """Finds values for variables with which ``u`` equals ``v``.

    Args:
        u, v: structures of tuples, lists and dicts (equal lengths, equal keys) with variables in them.
        s: values that are settled; it is not changed.

    Returns:
        the values, ``s`` among them, or ``False`` where there are none.
    """
    values = dict(s or {})
    pairs = [(u, v)]
    while pairs:
        left, right = pairs.pop()
        left, right = _walk(left, values), _walk(right, values)
        if isvar(left) or isvar(right):
            if not (isvar(left) and isvar(right) and left == right):
                values.update({left: right} if isvar(left) else {right: left})
        elif isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in reversed(left)]
        elif isinstance(left, (tuple, list)) and type(left) is type(right):
            if len(left) != len(right):
                return False
            pairs += list(zip(left, right, strict=True))[::-1]
        elif left is not right and left != right:
            return False
    return values


def _walk(value: Any, values: dict[Any, Any]) -> Any:
    while isvar(value) and value in values:
        value = values[value]
    return value
