"""The difference between a result and the expected one."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree

from fxlib.lowering.structure import Constant, same_constant, take_apart

APART = "not finite where eager is, or the reverse"
"""The meaning of a difference that is not finite."""
Told = float | Literal["not finite"] | None
"""A difference as data: JSON has no infinity."""


def mismatch(expected: Any, got: Any, precision: bool = True) -> str | None:
    """How a result differs from the expected one in structure, shape or dtype, in words; None if values alone may
    differ, or without `precision` those and floating-point dtypes."""
    (wanted, form), (given, other) = take_apart(expected), take_apart(got)
    if len(wanted) != len(given):
        return f"{_count(len(given))} instead of {_count(len(wanted))}"
    for want, have in zip(wanted, given, strict=True):
        if not isinstance(want, torch.Tensor) or not isinstance(have, torch.Tensor):
            continue
        if want.shape != have.shape:
            return f"a tensor of shape {list(have.shape)} instead of {list(want.shape)}"
        lower = not precision and want.is_floating_point() and have.is_floating_point()
        if want.dtype != have.dtype and not lower:
            return f"a tensor of {have.dtype} instead of {want.dtype}"
    kinds = [_kinds(each.spec) for each in (form, other)]
    if kinds[0] != kinds[1]:
        return f"{_name(kinds[1])} instead of {_name(kinds[0])}"
    for here, there in zip(form.leaves, other.leaves, strict=True):
        if isinstance(here, Constant) and isinstance(here.value, _PLAIN) and not same_constant(here, there):
            return f"{getattr(there, 'value', there)!r} instead of {here.value!r}"
    return None


_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)


def _count(tensors: int) -> str:
    return f"{tensors} tensor{'s' * (tensors != 1)}"


def _kinds(spec: Any) -> Any:
    """The types of nested containers. A graph returns lists and dicts of its own types."""
    if spec.is_leaf():
        return None
    kind = spec.context if spec.type is namedtuple else spec.type  # pytree has the function there
    kind = next((base for base in (list, dict) if issubclass(kind, base)), kind)
    if kind is torch.Size:  # a part returns sizes that may change as a tuple
        kind = tuple
    return kind, tuple(map(_kinds, spec.children()))


def _name(kinds: Any) -> str:
    return "a tensor" if kinds is None else f"a {kinds[0].__name__} of {len(kinds[1])}"


def difference(expected: Any, got: Any) -> tuple[float, float]:
    """The largest absolute difference between the tensors of two results, and the largest relative to the greatest
    finite magnitude of the expected tensor.  Both are infinite if only one result has NaN or an infinity at some place,
    or if two tensors differ in shape, or one of them is of integers.
    Integers are compared exactly: two that differ are at least 1 apart.
    """
    absolute = relative = 0.0
    leaves = pytree.tree_leaves(expected), pytree.tree_leaves(got)
    if len(leaves[0]) != len(leaves[1]):
        return math.inf, math.inf
    for want, have in zip(*leaves, strict=True):
        if not torch.is_tensor(want):
            continue
        if not torch.is_tensor(have) or want.shape != have.shape or _is_exact(want) != _is_exact(have):
            return math.inf, math.inf
        if want.numel():
            if want.is_complex() or have.is_complex():
                want, have = (torch.view_as_real(each.to(torch.complex128).resolve_conj()) for each in (want, have))
            one, two = want.double(), have.double()
            apart = (one - two).abs().nan_to_num(nan=math.inf, posinf=math.inf)
            if not want.is_floating_point():
                apart = apart.clamp(min=1.0)  # large ones may be the same in double
            furthest = apart.masked_fill((want == have) | (one.isnan() & two.isnan()), 0.0).max().item()
            largest = one.abs().nan_to_num(nan=0.0, posinf=0.0).max().item()
            absolute = max(absolute, furthest)
            relative = max(relative, furthest / max(largest, 1e-30))
    return absolute, relative


def _is_exact(tensor: torch.Tensor) -> bool:
    """Whether it holds integers or truth values."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def told(value: float | None) -> Told:
    """A difference in a form that JSON can hold."""
    return value if value is None or math.isfinite(value) else "not finite"


def in_words(value: float, digits: int = 1) -> str:
    """A difference as text."""
    return f"{value:.{digits}e}" if math.isfinite(value) else "not finite"
