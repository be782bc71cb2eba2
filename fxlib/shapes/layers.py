"""Shape rules of the layers that compute: convolution, pooling, normalisation, linear, matrix products, reductions."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.shapes.pointwise import broadcast, promote
from fxlib.shapes.table import FUNCTIONS, Rule, function, module, only_function, python
from fxlib.shapes.tensor_meta import TensorMeta, channels_last_strides
from fxlib.shapes.views import axis

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


# Convolution --------------------------------------------------------------------------------------------------------


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
    return weight.contiguous if isinstance(weight, Meta) else weight.is_contiguous()


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
    if module.padding_mode != "zeros":
        return None
    return conv(
        input, module.weight, len(module.kernel_size), module.stride, module.padding, module.dilation, module.groups
    )


@module(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
def conv_transpose_module(module: nn.ConvTranspose2d, input: Meta) -> Meta | None:
    n = len(module.kernel_size)
    if input.ndim != n + 2 or not input.contiguous or input.shape[1] != module.in_channels or not input.shape[0]:
        return None
    if input.dtype is not module.weight.dtype or not module.weight.is_contiguous():
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


# Pooling ------------------------------------------------------------------------------------------------------------


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


# Normalisation ------------------------------------------------------------------------------------------------------


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


# Linear, embedding and matrix products ------------------------------------------------------------------------------


def linear(input: Meta, weight: Meta | torch.Tensor, bias: Meta | torch.Tensor | None = None) -> Meta | None:
    if (
        not input.ndim
        or len(weight.shape) != 2
        or input.shape[-1] != weight.shape[1]
        or input.dtype is not weight.dtype
    ):
        return None
    if not input.contiguous and input.ndim != 2:  # a matrix product is contiguous, whatever it was made from
        return None
    return Meta((*input.shape[:-1], weight.shape[0]), input.dtype, input.device)


FUNCTIONS[F.linear] = linear


@module(nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
def linear_module(module: nn.Linear, input: Meta) -> Meta | None:
    return linear(input, module.weight)


@module(nn.Embedding)
def embedding_module(module: nn.Embedding, input: Meta) -> Meta | None:
    if input.dtype not in (torch.int64, torch.int32) or module.max_norm is not None:
        return None
    return Meta((*input.shape, module.weight.shape[1]), module.weight.dtype, input.device) if input.contiguous else None


@only_function("embedding")
def embedding(
    input: Meta, weight: Meta, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> Meta | None:
    if (
        weight.ndim != 2
        or input.dtype not in (torch.int64, torch.int32)
        or max_norm is not None
        or not input.contiguous
    ):
        return None
    return Meta((*input.shape, weight.shape[1]), weight.dtype, input.device)


@function("mm")
def mm(input: Meta, mat2: Meta) -> Meta | None:
    return matmul(input, mat2) if input.ndim == mat2.ndim == 2 else None


@function("bmm")
def bmm(input: Meta, mat2: Meta) -> Meta | None:
    return matmul(input, mat2) if input.ndim == mat2.ndim == 3 and input.shape[0] == mat2.shape[0] else None


@python("matmul")
@function("matmul")
def matmul(input: Meta, other: Meta) -> Meta | None:
    if input.ndim < 2 or other.ndim < 2 or input.dtype is not other.dtype or input.device != other.device:
        return None
    if (
        not input.dtype.is_floating_point
        or input.shape[-1] != other.shape[-2]
        or (other.ndim > 2 and other.ndim != input.ndim)
    ):
        return None
    if other.ndim == 2 and input.ndim > 2 and not input.contiguous:
        return None
    lead = []
    for a, b in zip(input.shape[:-2], other.shape[:-2] if other.ndim > 2 else input.shape[:-2], strict=False):
        if a != b and 1 not in (a, b):
            return None
        lead.append(b if a == 1 else a)
    return Meta((*lead, input.shape[-2], other.shape[-1]), input.dtype, input.device)


@function("baddbmm", "addmm")
def baddbmm(input: Meta, batch1: Meta, batch2: Meta, *, beta: Any = 1, alpha: Any = 1) -> Meta | None:
    if batch1.ndim != batch2.ndim or batch1.ndim > 3 or input.dtype is not batch1.dtype:
        return None
    out = matmul(batch1, batch2)
    fits = out is not None and broadcast(tuple(input.shape), tuple(out.shape)) == tuple(out.shape)
    return out if fits and batch1.shape[:-2] == batch2.shape[:-2] else None


# Reductions ---------------------------------------------------------------------------------------------------------


def reduced(input: Meta, dim: Any, keepdim: bool, dtype: torch.dtype) -> Meta | None:
    if not input.contiguous:
        return None
    if dim is None or dim == () or dim == []:
        gone = set(range(input.ndim))
    else:
        dims = [axis(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
        if None in dims or len(set(dims)) != len(dims):
            return None
        gone = set(dims)  # type: ignore[arg-type]
    if keepdim:
        shape = tuple(1 if i in gone else s for i, s in enumerate(input.shape))
    else:
        shape = tuple(s for i, s in enumerate(input.shape) if i not in gone)
    return Meta(shape, dtype, input.device)


@function("mean", "nanmean")
def mean(input: Meta, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Meta | None:
    return reduced(input, dim, keepdim, dtype or input.dtype) if dtype or input.dtype.is_floating_point else None


@function("sum", "nansum")
def sum_(input: Meta, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Meta | None:
    small = not input.dtype.is_floating_point and not input.dtype.is_complex
    return reduced(input, dim, keepdim, dtype or (torch.int64 if small else input.dtype))


@function("amax", "amin")
def amax(input: Meta, dim: Any = (), keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, input.dtype)


@function("argmax", "argmin")
def argmax(input: Meta, dim: Any = None, keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, torch.int64)


@function("var", "std")
def var(
    input: Meta, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1
) -> Meta | None:
    if not input.dtype.is_floating_point or type(dim) is bool:
        return None
    return reduced(input, dim, keepdim, input.dtype)


@function("logsumexp")
def logsumexp(input: Meta, dim: Any, keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, input.dtype) if input.dtype.is_floating_point else None


def _extreme(kind: Any) -> Rule:
    def rule(input: Meta, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Meta):
            dtype = promote((input, dim))
            return (
                Meta(input.shape, dtype, input.device)
                if dtype and input.shape == dim.shape and input.contiguous and dim.contiguous
                else None
            )
        values = reduced(input, dim, keepdim, input.dtype)
        if values is None or dim is None:
            return values
        return kind((values, reduced(input, dim, keepdim, torch.int64)))

    return rule


function("max")(_extreme(torch.return_types.max))
function("min")(_extreme(torch.return_types.min))


@function("cumsum", "cumprod")
def cumulative(input: Meta, dim: int, *, dtype: torch.dtype | None = None) -> Meta | None:
    small = not input.dtype.is_floating_point and not input.dtype.is_complex
    return (
        Meta(input.shape, dtype or (torch.int64 if small else input.dtype), input.device) if input.contiguous else None
    )
