"""Normalises the forms that torch accepts for an argument to the one that converters use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fxlib.ir.leaves import as_sequence

_NAMES = {"axis": "dim", "keepdims": "keepdim", "self": "input"}


def listed(value: Any) -> list[Any]:
    """One value or several: `2` and `[2]` mean the same."""
    return list(as_sequence(value))


def spread(values: Sequence[Any]) -> list[Any]:
    """Separate values or one sequence: `f(2, 3)` and `f((2, 3))` mean the same."""
    return listed(values[0]) if len(values) == 1 else list(values)


def per_dimension(value: Any, count: int) -> list[Any]:
    """One value for each of `count` dimensions, or the same for all: `2` and `[2]` mean `[2, 2]`."""
    given = listed(value)
    return given * count if len(given) == 1 else given


def rename(kwargs: dict[str, Any]) -> dict[str, Any]:
    """torch accepts NumPy's names for some arguments; converters use torch's own."""
    return {_NAMES.get(name, name): value for name, value in kwargs.items()}
