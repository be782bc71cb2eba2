"""How a value of the program becomes an argument of a node: one rule per kind of value.

`TracerBase.create_arg` looks the rule up and applies it. A rule lowers the items of a collection through the tracer's
own ``create_arg``, so that an override sees every value.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._library.opaque_object import is_opaque_value_type

from fxlib.capture.proxy import Attribute, Proxy
from fxlib.ir.arguments import Argument, base_types

if TYPE_CHECKING:
    from fxlib.capture.tracer_base import TracerBase

__all__ = ["IMMEDIATE", "rule_of"]

Rule = Callable[["TracerBase", Any], Argument]

# Types whose values are arguments unchanged, looked up by exact type.
IMMEDIATE: frozenset[type] = frozenset(
    {
        str,
        int,
        float,
        bool,
        complex,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.layout,
        torch.SymInt,
        torch.SymBool,
        torch.SymFloat,
        torch._ops.OpOverload,
    }
)


def rule_of(a: object) -> Rule | None:
    """The rule for a value; None if it cannot be an argument."""
    return _BY_TYPE.get(type(a)) or next(_fitting(a), None)


def _node(tracer: TracerBase, a: Proxy) -> Argument:
    return a.node


def _own(tracer: TracerBase, a: Any) -> Argument:
    return a.__fx_create_arg__(tracer)


def _items(tracer: TracerBase, a: Any) -> Argument:
    return type(a)(list(map(tracer.create_arg, a)))


def _fields(tracer: TracerBase, a: Any) -> Argument:
    return type(a)(*map(tracer.create_arg, a))


def _entries(tracer: TracerBase, a: dict[Any, Any]) -> Argument:
    return {tracer._create_key(key): tracer.create_arg(value) for key, value in a.items()}


def _bounds(tracer: TracerBase, a: slice | range) -> Argument:
    kind: Any = slice if isinstance(a, slice) else range
    return kind(*map(tracer.create_arg, (a.start, a.stop, a.step)))


def _construction(tracer: TracerBase, a: Any) -> Argument:
    values = {field.name: tracer.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
    return tracer.create_node("call_function", a.__class__, (), values)


def _itself(tracer: TracerBase, a: Any) -> Argument:
    return a


_BY_TYPE: dict[type, Rule] = {
    Proxy: _node,
    Attribute: _node,
    tuple: _items,
    list: _items,
    dict: _entries,
    slice: _bounds,
    **dict.fromkeys(IMMEDIATE, _itself),
}


def _fitting(a: object) -> Iterator[Rule]:
    """The rules that a value fits; the first one counts."""
    if isinstance(a, Proxy):
        yield _node
    if hasattr(a, "__fx_create_arg__"):
        yield _own
    if isinstance(a, tuple) and hasattr(a, "_fields"):
        yield _fields
    for kinds, rule in _BY_CLASS:
        if isinstance(a, kinds):
            yield rule
    if is_opaque_value_type(type(a)):
        yield _itself
    if dataclasses.is_dataclass(a):
        yield _construction
    if isinstance(a, (*base_types, enum.Enum)):
        yield _itself


_BY_CLASS: tuple[tuple[tuple[type, ...], Rule], ...] = (
    ((tuple, list), _items),
    ((dict,), _entries),
    ((slice, range), _bounds),
    ((torch._ops.OpOverload, torch._ops.HigherOrderOperator), _itself),
)
