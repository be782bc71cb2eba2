"""How far a result is from the one it should be."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree

APART = "not finite where eager is, or the reverse"
"""What a difference that is not finite means."""
Told = float | Literal["not finite"] | None
"""A difference as data: JSON has no infinity."""


def difference(expected: Any, got: Any) -> tuple[float, float]:
    """The largest absolute difference between the tensors of two results, and the largest relative to the greatest
    finite magnitude of the expected tensor.  Both are infinite where one has NaN or an infinity that the other has
    not."""
    absolute = relative = 0.0
    for want, have in zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True):
        if torch.is_tensor(want) and want.numel():
            one, two = want.double(), have.double()
            apart = (one - two).abs().nan_to_num(nan=math.inf, posinf=math.inf)
            furthest = apart.masked_fill((one == two) | (one.isnan() & two.isnan()), 0.0).max().item()
            largest = one.abs().nan_to_num(nan=0.0, posinf=0.0).max().item()
            absolute = max(absolute, furthest)
            relative = max(relative, furthest / max(largest, 1e-30))
    return absolute, relative


def told(value: float | None) -> Told:
    """A difference as what JSON can have."""
    return value if value is None or math.isfinite(value) else "not finite"


def in_words(value: float, digits: int = 1) -> str:
    """A difference for people."""
    return f"{value:.{digits}e}" if math.isfinite(value) else "not finite"
