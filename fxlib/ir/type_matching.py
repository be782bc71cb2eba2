"""Types of arguments against the annotations of parameters."""

import functools
import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["create_type_hint", "type_matches"]


def create_type_hint(x: object) -> object:
    """A type hint for a value's type: of a list or tuple of types the hint of the most general one, else ``x`` itself.

    ``[int, bool]`` gives ``list[int]``, ``(int, str)`` gives ``tuple[Any, ...]``, ``int`` gives ``int``.
    """
    try:
        if isinstance(x, list):
            return list[_most_general(x)]  # type: ignore[misc]
        if isinstance(x, tuple):
            return tuple[_most_general(x), ...]  # type: ignore[misc]
    except Exception:
        warnings.warn(f"We were not able to successfully create type hint from the type {x}")
    return x


_UNRELATED = object()


def _most_general(kinds: Sequence[Any]) -> Any:
    # The first is compared with itself too, so that a non-type is rejected.
    widest = functools.reduce(_wider, kinds, kinds[0]) if kinds else _UNRELATED
    return Any if widest is _UNRELATED else widest


def _wider(one: Any, other: Any) -> Any:
    if one is _UNRELATED:
        return one
    return other if issubclass(one, other) else one if issubclass(other, one) else _UNRELATED


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of type ``argument_type`` can be passed for a parameter annotated with ``signature_type``."""
    if signature_type is argument_type:
        return True
    matches = _BY_ORIGIN.get(typing.get_origin(signature_type), _class_matches)
    return matches(signature_type, argument_type)


def _union_matches(union: Any, given: Any) -> bool:
    return union == given or any(type_matches(choice, given) for choice in typing.get_args(union))


def _list_matches(wanted: Any, given: Any) -> bool:
    element = next(iter(typing.get_args(wanted)), Any)
    # An int[2] parameter takes a single int.
    if wanted == given or (element is int and given is int):
        return True
    if not _is_plain_class(element):
        warnings.warn(f"Does not support nested parametric types, got {wanted}. Please file a bug.")
        return False
    origin, parts = typing.get_origin(given), typing.get_args(given)
    if origin is list:
        return len(parts) > 0 and _is_class_below(parts[0], element)
    return origin is tuple and all(part in (..., ()) or _is_class_below(part, element) for part in parts)


_BY_ORIGIN: dict[Any, Callable[[Any, Any], bool]] = {
    typing.Union: _union_matches,
    types.UnionType: _union_matches,
    list: _list_matches,
}
# Schemas know dtypes as integers.
_ALSO_TAKEN: dict[Any, tuple[type, ...]] = {numbers.Number: (int, float), int: (torch.dtype,)}


def _class_matches(wanted: Any, given: Any) -> bool:
    if not _is_plain_class(given):
        return False
    return given in _ALSO_TAKEN.get(wanted, ()) or (inspect.isclass(wanted) and issubclass(given, wanted))


def _is_plain_class(kind: Any) -> bool:
    return inspect.isclass(kind) and typing.get_origin(kind) is None


def _is_class_below(kind: Any, wanted: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, wanted)
