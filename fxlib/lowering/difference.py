"""How far a result is from the one it should be."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.ir.leaves import map_tensors


def difference(expected: Any, got: Any) -> tuple[float, float]:
    """The largest absolute difference between the tensors of two results, and the largest relative to the greatest
    magnitude of the expected tensor."""
    absolute = relative = 0.0
    for want, have in zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=True):
        if torch.is_tensor(want) and want.numel():
            furthest = (want.double() - have.double()).abs().max().item()
            absolute = max(absolute, furthest)
            relative = max(relative, furthest / max(want.double().abs().max().item(), 1e-30))
    return absolute, relative


def copied(value: Any) -> Any:
    """The same nested tuples, lists and dicts with copies of the tensors: a model may write to its inputs."""
    return map_tensors(torch.clone, value)
