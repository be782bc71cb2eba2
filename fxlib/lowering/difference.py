"""The difference between a result and the expected one."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree

APART = "not finite where eager is, or the reverse"
"""The meaning of a difference that is not finite."""
Told = float | Literal["not finite"] | None
"""A difference as data: JSON has no infinity."""


def difference(expected: Any, got: Any) -> tuple[float, float]:
    """The largest absolute difference between the tensors of two results, and the largest relative to the greatest
    finite magnitude of the expected tensor.  Both are infinite if only one result has NaN or an infinity at some place,
    or if two tensors differ in shape.
    Integers are compared exactly: two that differ are at least 1 apart.
    """
    absolute = relative = 0.0
    for want, have in zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True):
        if torch.is_tensor(want) and (not torch.is_tensor(have) or want.shape != have.shape):
            return math.inf, math.inf
        if torch.is_tensor(want) and want.numel():
            if want.is_complex():
                want, have = torch.view_as_real(want.resolve_conj()), torch.view_as_real(have.resolve_conj())
            one, two = want.double(), have.double()
            apart = (one - two).abs().nan_to_num(nan=math.inf, posinf=math.inf)
            if not want.is_floating_point():
                apart = apart.clamp(min=1.0)  # large ones may be the same in double
            furthest = apart.masked_fill((want == have) | (one.isnan() & two.isnan()), 0.0).max().item()
            largest = one.abs().nan_to_num(nan=0.0, posinf=0.0).max().item()
            absolute = max(absolute, furthest)
            relative = max(relative, furthest / max(largest, 1e-30))
    return absolute, relative


def told(value: float | None) -> Told:
    """A difference in a form that JSON can hold."""
    return value if value is None or math.isfinite(value) else "not finite"


def in_words(value: float, digits: int = 1) -> str:
    """A difference as text."""
    return f"{value:.{digits}e}" if math.isfinite(value) else "not finite"
