"""Folding a batch norm in evaluation mode into the layer before it.

``bn(y) = (y - mean) / sqrt(var + eps) * gamma + beta`` is affine per channel, so with ``s = gamma / sqrt(var +
eps)`` the layer's weight becomes ``s * W`` (per output channel) and its bias ``(b - mean) * s + beta``; Jacob et al.
2018, section 3.2. Computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["NormParameters", "fold_weight_and_bias"]


@dataclass(frozen=True)
class NormParameters:
    """A batch norm in evaluation mode: four vectors of length C (gamma and beta may be absent) and eps."""

    mean: torch.Tensor
    var: torch.Tensor
    gamma: torch.Tensor | None
    beta: torch.Tensor | None
    eps: float


def fold_weight_and_bias(
    weight: torch.Tensor, bias: torch.Tensor | None, norm: NormParameters, *, transposed: bool = False, groups: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the layer that computes ``norm(layer(x))``.

    Args:
        weight: ``[out, in / groups, *kernel]``, or ``[in, out / groups, *kernel]`` where ``transposed``.
        bias: ``[out]`` or None.

    Returns:
        Detached tensors of the weight's dtype and device; the weight keeps its memory format.
    """
    wide = torch.float64
    scale = (norm.var.to(wide) + norm.eps).rsqrt()
    if norm.gamma is not None:
        scale = scale * norm.gamma.to(wide)
    shift = -norm.mean.to(wide) if bias is None else bias.to(wide) - norm.mean.to(wide)
    shift = shift * scale
    if norm.beta is not None:
        shift = shift + norm.beta.to(wide)
    if transposed:
        per_group = weight.to(wide).unflatten(0, (groups, -1))
        factor = scale.view(groups, 1, -1, *[1] * (weight.dim() - 2))
        folded = (per_group * factor).flatten(0, 1)
    else:
        folded = weight.to(wide) * scale.view(-1, *[1] * (weight.dim() - 1))
    result = torch.empty_like(weight)  # keeps channels-last
    result.detach().copy_(folded.detach())
    return result.detach(), shift.detach().to(weight.dtype)
