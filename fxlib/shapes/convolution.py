"""Shape rules of convolution and pooling."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.shapes.table import FUNCTIONS, Rule, module, only_function
from fxlib.shapes.tensor_meta import TensorMeta, channels_last_strides, contiguous_strides

Meta = TensorMeta


def spatial(value: object, n: int) -> tuple[int, ...] | None:
    """A stride, padding or dilation given once or once per dimension."""
    if type(value) is int:
        return (value,) * n
    if isinstance(value, (tuple, list)) and len(value) in (1, n) and all(type(v) is int for v in value):
        return tuple(value) * (n if len(value) == 1 else 1)
    return None


def same_layout(input: Meta, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Meta | None:
    """A result that keeps the input's memory format: contiguous, or channels-last without ambiguity."""
    dtype = dtype or input.dtype
    if input.contiguous:
        return Meta(shape, dtype, input.device)
    strides = channels_last_strides(tuple(input.shape))
    if strides == input.strides and input.shape[1] > 1 and prod(input.shape[2:]) > 1:
        return Meta(shape, dtype, input.device, channels_last_strides(tuple(shape)))
    return None


# Convolution ---------------------------------------------------------------------------------------------------------


def conv(
    input: Meta, weight: Meta | torch.Tensor, n: int, stride: Any, padding: Any, dilation: Any, groups: int
) -> Meta | None:
    """``floor((size + 2 padding - dilation (kernel - 1) - 1) / stride + 1)`` per dimension, as torch.nn.Conv2d says."""
    if input.ndim != n + 2 or len(weight.shape) != n + 2 or input.dtype is not weight.dtype:
        return None
    kernel = weight.shape[2:]
    strides, dilations = spatial(stride, n), spatial(dilation, n)
    if padding == "same":
        return same_layout(input, (input.shape[0], weight.shape[0], *input.shape[2:])) if strides == (1,) * n else None
    pads = (0,) * n if padding == "valid" else spatial(padding, n)
    if strides is None or dilations is None or pads is None or min((*strides, *dilations, groups)) < 1:
        return None
    if input.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups or not input.shape[0]:
        return None
    out = tuple(
        (input.shape[2 + i] + 2 * pads[i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(n)
    )
    if min(out) <= 0 or not _plain_weight(weight):
        return None
    return same_layout(input, (input.shape[0], weight.shape[0], *out))


def _plain_weight(weight: Meta | torch.Tensor) -> bool:
    """Whether its strides are the row-major ones. torch calls the channels-last weight of a 1x1 kernel contiguous as
    well, but lets it decide the result's strides."""
    return tuple(weight.stride()) == contiguous_strides(tuple(weight.shape))


def _conv_function(n: int) -> Rule:
    def rule(
        input: Meta,
        weight: Meta,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Meta | None:
        return conv(input, weight, n, stride, padding, dilation, groups)

    return rule


for _n, _name in enumerate(("conv1d", "conv2d", "conv3d"), 1):
    only_function(_name)(_conv_function(_n))


@module(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def conv_module(module: nn.Conv2d, input: Meta) -> Meta | None:
    n = len(module.kernel_size)
    if module.padding_mode != "zeros":
        pads = () if isinstance(module.padding, str) or not input.contiguous else module.padding
        if len(pads) != n or input.ndim != n + 2:
            return None
        if any(pad >= size for pad, size in zip(pads, input.shape[2:], strict=True)):
            return None  # other padding modes copy from the input, which limits its size
    return conv(input, module.weight, n, module.stride, module.padding, module.dilation, module.groups)


@module(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
def conv_transpose_module(module: nn.ConvTranspose2d, input: Meta) -> Meta | None:
    n = len(module.kernel_size)
    if input.ndim != n + 2 or not input.contiguous or input.shape[1] != module.in_channels or not input.shape[0]:
        return None
    if input.dtype is not module.weight.dtype or not _plain_weight(module.weight):
        return None
    out = tuple(
        (input.shape[2 + i] - 1) * module.stride[i]
        - 2 * int(module.padding[i])
        + module.dilation[i] * (module.kernel_size[i] - 1)
        + module.output_padding[i]
        + 1
        for i in range(n)
    )
    return Meta((input.shape[0], module.out_channels, *out), input.dtype, input.device) if min(out) > 0 else None


# Pooling -------------------------------------------------------------------------------------------------------------


def pool(input: Meta, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Meta | None:
    if input.ndim != n + 2 or not input.dtype.is_floating_point or not input.shape[0]:
        return None
    kernels, pads, dilations = spatial(kernel, n), spatial(padding, n), spatial(dilation, n)
    strides = kernels if stride is None or stride == () else spatial(stride, n)
    if kernels is None or strides is None or pads is None or dilations is None:
        return None
    if min((*kernels, *strides, *dilations)) < 1:
        return None
    out = []
    for i in range(n):
        if 2 * pads[i] > kernels[i]:
            return None
        span = input.shape[2 + i] + 2 * pads[i] - dilations[i] * (kernels[i] - 1) - 1
        size = (-(-span // strides[i]) if ceil_mode else span // strides[i]) + 1
        if ceil_mode and (size - 1) * strides[i] >= input.shape[2 + i] + pads[i]:
            size -= 1
        out.append(size)
    return same_layout(input, (*input.shape[:2], *out)) if min(out) > 0 else None


def _max_pool(n: int) -> Rule:
    def rule(
        input: Meta,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Meta | None:
        return None if return_indices else pool(input, n, kernel_size, stride, padding, dilation, ceil_mode)

    return rule


def _avg_pool(n: int) -> Rule:
    def rule(
        input: Meta,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Meta | None:
        return pool(input, n, kernel_size, stride, padding, 1, ceil_mode)

    return rule


def _adaptive_pool(n: int) -> Rule:
    def rule(input: Meta, output_size: Any, return_indices: bool = False) -> Meta | None:
        if type(output_size) is int:
            output_size = (output_size,) * n
        if input.ndim != n + 2 or return_indices or not isinstance(output_size, (tuple, list)) or len(output_size) != n:
            return None
        if not input.contiguous or not input.dtype.is_floating_point:
            return None
        sizes = [have if want is None else want for have, want in zip(input.shape[2:], output_size, strict=False)]
        if any(type(size) is not int for size in sizes):
            return None
        return Meta((*input.shape[:2], *sizes), input.dtype, input.device)

    return rule


for _n in (1, 2, 3):
    for _name, _make in (("max_pool", _max_pool), ("avg_pool", _avg_pool), ("adaptive_avg_pool", _adaptive_pool)):
        only_function(f"{_name}{_n}d")(_make(_n))
    FUNCTIONS[getattr(F, f"adaptive_max_pool{_n}d")] = _adaptive_pool(_n)


@module(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
def max_pool_module(module: nn.MaxPool2d, input: Meta) -> Meta | None:
    if module.return_indices:
        return None
    return pool(
        input,
        int(type(module).__name__[-2]),
        module.kernel_size,
        module.stride,
        module.padding,
        module.dilation,
        module.ceil_mode,
    )


@module(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
def avg_pool_module(module: nn.AvgPool2d, input: Meta) -> Meta | None:
    return pool(
        input, int(type(module).__name__[-2]), module.kernel_size, module.stride, module.padding, 1, module.ceil_mode
    )


@module(
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.AdaptiveMaxPool3d,
)
def adaptive_pool_module(module: nn.AdaptiveAvgPool2d, input: Meta) -> Meta | None:
    return _adaptive_pool(int(type(module).__name__[-2]))(
        input, module.output_size, getattr(module, "return_indices", False)
    )
