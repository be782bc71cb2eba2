"""Helpers that several models share."""

import torch


def clip_by_norm(x: torch.Tensor, limit: float) -> torch.Tensor:
    """Scales the whole batch down when its norm is above the limit."""
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x
