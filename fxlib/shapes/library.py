"""Shape rules of functions of torchvision that a trace leaves whole.

Each runs dozens of operators, one by one through fake tensors, for a result that has its input's shape. They are found
by name, since torchvision may be absent and is slow to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxlib.shapes.tensor_meta import TensorMeta as Meta

__all__ = ["library_rule"]


def library_rule(target: object) -> Callable[..., Any] | None:
    """The rule of a function of a library, or None."""
    module = getattr(target, "__module__", None)
    if not isinstance(module, str) or not module.startswith("torchvision."):
        return None
    return _RULES.get((module, getattr(target, "__qualname__", "")))


def stochastic_depth(input: Any, p: Any, mode: Any, training: Any = True) -> Meta | None:
    """Nothing happens outside of training."""
    if not isinstance(input, Meta) or type(p) not in (int, float) or not 0 <= p <= 1 or mode not in ("batch", "row"):
        return None
    return input if training is False or p == 0 else None


def shifted_window_attention(
    input: Any,
    qkv_weight: Any,
    proj_weight: Any,
    relative_position_bias: Any,
    window_size: Any,
    num_heads: Any,
    shift_size: Any,
    attention_dropout: Any = 0.0,
    dropout: Any = 0.0,
    qkv_bias: Any = None,
    proj_bias: Any = None,
    logit_scale: Any = None,
    training: Any = True,
) -> Meta | None:
    """Attention within windows of ``[N, H, W, C]``: padded, split, joined and cropped again, so the result is like the
    input."""
    given = [input, qkv_weight, proj_weight, relative_position_bias]
    given += [each for each in (qkv_bias, proj_bias, logit_scale) if each is not None]
    if not all(isinstance(each, Meta) for each in given) or input.ndim != 4 or not input.contiguous:
        return None
    if input.numel() == 0 or not input.dtype.is_floating_point or torch.is_autocast_enabled(input.device.type):
        return None
    if any(each.dtype is not input.dtype or each.device != input.device for each in given):
        return None
    if not _pair(window_size, 1) or not _pair(shift_size, 0) or type(num_heads) is not int or num_heads < 1:
        return None
    if not _ratio(attention_dropout) or not _ratio(dropout):
        return None
    padded = any(size % window for size, window in zip(input.shape[1:3], window_size, strict=True))
    if padded and 1 in input.shape[:3]:
        return None  # cropping gives the dimension of size 1 another stride
    channels = input.shape[3]
    inside = window_size[0] * window_size[1]
    fits = (
        channels % num_heads == 0
        and tuple(qkv_weight.shape) == (3 * channels, channels)
        and tuple(proj_weight.shape) == (channels, channels)
        and tuple(relative_position_bias.shape) == (1, num_heads, inside, inside)
        and (qkv_bias is None or tuple(qkv_bias.shape) == (3 * channels,))
        and (proj_bias is None or tuple(proj_bias.shape) == (channels,))
        and (logit_scale is None or tuple(logit_scale.shape) == (num_heads, 1, 1))
        and all(shift < window for shift, window in zip(shift_size, window_size, strict=True))
    )
    return Meta(input.shape, input.dtype, input.device) if fits else None


def _pair(value: object, least: int) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(v) is int and v >= least for v in value)


def _ratio(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


_RULES: dict[tuple[str, str], Callable[..., Any]] = {
    ("torchvision.ops.stochastic_depth", "stochastic_depth"): stochastic_depth,
    ("torchvision.models.swin_transformer", "shifted_window_attention"): shifted_window_attention,
}
