"""Shape rules of normalisation."""

from __future__ import annotations

from torch import nn

from fxlib.shapes.convolution import same_layout
from fxlib.shapes.table import function, module, only_function
from fxlib.shapes.tensor_meta import TensorMeta

Meta = TensorMeta


@module(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def batch_norm_module(module: nn.BatchNorm2d, input: Meta) -> Meta | None:
    if input.ndim < 2 or input.shape[1] != module.num_features or not input.dtype.is_floating_point:
        return None
    if (
        not module.affine
        or input.dtype is not module.weight.dtype
        or input.ndim != _BATCH_NORM_RANK.get(type(module), input.ndim)
    ):
        return None
    if (module.training or not module.track_running_stats) and input.numel() <= input.shape[1]:
        return None
    return same_layout(input, tuple(input.shape))


_BATCH_NORM_RANK = {nn.BatchNorm2d: 4, nn.BatchNorm3d: 5}


@only_function("batch_norm")
def batch_norm(
    input: Meta,
    running_mean: Meta | None,
    running_var: Meta | None,
    weight: Meta | None = None,
    bias: Meta | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Meta | None:
    if input.ndim < 2 or not input.dtype.is_floating_point or (training and input.numel() <= input.shape[1]):
        return None
    given = [each for each in (running_mean, weight) if each is not None]
    if any(each.dtype is not input.dtype or tuple(each.shape) != (input.shape[1],) for each in given):
        return None
    return same_layout(input, tuple(input.shape))


@module(nn.LayerNorm)
def layer_norm_module(module: nn.LayerNorm, input: Meta) -> Meta | None:
    n = len(module.normalized_shape)
    if tuple(input.shape[input.ndim - n :]) != tuple(module.normalized_shape) or not input.contiguous:
        return None
    if module.weight is not None and input.dtype is not module.weight.dtype:
        return None
    return Meta(input.shape, input.dtype, input.device)


@only_function("layer_norm")
def layer_norm(
    input: Meta,
    normalized_shape: tuple[int, ...] | list[int],
    weight: Meta | None = None,
    bias: Meta | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Meta | None:
    n = len(normalized_shape)
    if tuple(input.shape[input.ndim - n :]) != tuple(normalized_shape) or not input.contiguous:
        return None
    if weight is not None and weight.dtype is not input.dtype:
        return None
    return Meta(input.shape, input.dtype, input.device)


@module(nn.GroupNorm)
def group_norm_module(module: nn.GroupNorm, input: Meta) -> Meta | None:
    if input.ndim < 3 or input.shape[1] != module.num_channels or not input.contiguous:
        return None
    if (module.weight is not None and input.dtype is not module.weight.dtype) or input.numel() <= module.num_groups:
        return None
    return Meta(input.shape, input.dtype, input.device)


@function("normalize")
def normalize(input: Meta, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Meta | None:
    return input if input.contiguous and input.dtype.is_floating_point else None
