"""Nested structures split into their tensors and a form, from which they can be rebuilt.

pytree knows tuples, lists, dicts and what libraries register. The attributes of other objects, such as the caches that
language models return, are traversed as well: an engine passes tensors, while a caller expects the object.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)  # each holds everything that an export knows
_WHOLE = (torch.nn.Module, type, types.ModuleType, *_FUNCTIONS, *_SIZES)


class _Tensor:
    """The place of a tensor in a form."""

    def __repr__(self) -> str:
        return "a tensor"

    def __reduce__(self) -> str:
        return "TENSOR"


TENSOR = _Tensor()


@dataclass
class Constant:
    """A value without tensors: it is the same in every call."""

    value: Any


@dataclass
class Object:
    """An object whose attributes hold tensors."""

    type: type
    attributes: Form


@dataclass
class Form:
    """A structure without its tensors."""

    spec: Any
    leaves: list[_Tensor | Constant | Object]

    @property
    def single(self) -> bool:
        """Whether it is a single tensor without a structure."""
        return self.leaves == [TENSOR] and self.spec.is_leaf()

    def labels(self, name: str) -> Iterator[str]:
        """A name for each of its tensors: `x`, or `x[0]`, `x[1]` for several."""
        count = self.count()
        yield from [name] if self.single else (f"{name}[{index}]" for index in range(count))

    def split(self) -> list[Form]:
        """The form of each of its leaves."""
        return [Form(pytree.tree_flatten(None)[1], [leaf]) for leaf in self.leaves]

    def count(self) -> int:
        """The number of its tensors."""
        return sum(
            1 if leaf is TENSOR else leaf.attributes.count() if isinstance(leaf, Object) else 0 for leaf in self.leaves
        )


def take_apart(value: Any, seen: frozenset[int] = frozenset()) -> tuple[list[Any], Form]:
    """The tensors of a value in order, and its form. A size that an export does not know counts as a tensor, which the
    engine returns."""
    flat, spec = pytree.tree_flatten(value)
    tensors: list[Any] = []
    leaves: list[_Tensor | Constant | Object] = []
    for leaf in flat:
        if isinstance(leaf, (torch.Tensor, *_SIZES)):
            tensors.append(leaf)
            leaves.append(TENSOR)
            continue
        held = getattr(leaf, "__dict__", None)
        if held and not isinstance(leaf, _WHOLE) and id(leaf) not in seen:
            inside, attributes = take_apart(dict(held), seen | {id(leaf)})
            if inside:
                tensors += inside
                leaves.append(Object(type(leaf), attributes))
                continue
        leaves.append(Constant(leaf))
    return tensors, Form(spec, leaves)


def holds_symbols(value: Any) -> bool:
    """Whether an object unknown to pytree has symbolic sizes among its attributes, so that it varies between calls."""
    for leaf in pytree.tree_leaves(value):
        held = getattr(leaf, "__dict__", None)
        if held and not isinstance(leaf, _WHOLE) and any(isinstance(each, _SIZES) for each in pytree.tree_leaves(held)):
            return True
    return False


def put_together(form: Form, tensors: Iterator[Any]) -> Any:
    """A value of that form with these tensors."""
    flat: list[Any] = []
    for leaf in form.leaves:
        if isinstance(leaf, Constant):
            flat.append(leaf.value)
        elif isinstance(leaf, Object):
            cls: Any = leaf.type
            made = cls.__new__(cls)
            made.__dict__.update(put_together(leaf.attributes, tensors))
            flat.append(made)
        else:
            flat.append(next(tensors))
    return pytree.tree_unflatten(flat, form.spec)


def same_form(one: Form, other: Form) -> bool:
    """Whether values of both forms differ in their tensors only."""
    if one.spec != other.spec or len(one.leaves) != len(other.leaves):
        return False
    for a, b in zip(one.leaves, other.leaves, strict=True):
        if type(a) is not type(b):
            return False
        if isinstance(a, Constant) and not same_constant(a, b):
            return False
        different = (
            isinstance(a, Object)
            and isinstance(b, Object)
            and (a.type is not b.type or not same_form(a.attributes, b.attributes))
        )
        if different:
            return False
    return True


def same_constant(one: Constant, other: Any) -> bool:
    """Whether a leaf is a constant of the same value."""
    if not isinstance(other, Constant):
        return False
    if one.value is other.value:
        return True
    try:
        return bool(one.value == other.value)
    except Exception:
        return False
