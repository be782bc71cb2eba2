"""The functions between float and 8-bit that stand in quantized graphs.

`quantize` and `dequantize` are also the Q and DQ of the exchange form that lowering reads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch.overrides import handle_torch_function, has_torch_function

from fxlib.passes.quantize.large_results import LargeResult

__all__ = [
    "conv2d_of_levels",
    "dequantize",
    "dequantize_weight",
    "quantize",
    "quantize_symmetric",
    "quantized_add",
    "quantized_max_pool2d",
    "quantized_relu",
]

_memory = LargeResult()  # for a network's large input
_CHUNK = 1 << 17  # elements: a float32 chunk of 512 KB stays in the core's cache between the three steps


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _one_operator(function: _Function) -> _Function:
    """Make a function an operator for traces, so that a quantized graph is traced, and unpickled, as it is.

    Its result is memory of its own."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if has_torch_function(given):
            return handle_torch_function(call, given, *args, **kwargs)
        return function(*args, **kwargs)

    call.makes_new_memory = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


@_one_operator
def quantize(x: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    """``clamp(floor(x / scale + zero_point + 0.5), 0, 255)`` as uint8, in the memory format of ``x``."""
    flat = x.detach()
    if not flat.is_contiguous():
        if flat.dim() == 4 and flat.is_contiguous(memory_format=torch.channels_last):
            return quantize(flat.permute(0, 2, 3, 1), scale, zero_point).permute(0, 3, 1, 2)
        flat = flat.contiguous()
    flat = flat.view(-1)
    shift = torch.tensor(zero_point + 0.5, dtype=flat.dtype, device=x.device)
    if x.device.type != "cpu":
        return torch.add(shift, flat, alpha=1 / scale).clamp_(0, 255).to(torch.uint8).view(x.shape)
    out = _memory.take(flat.numel(), dtype=torch.uint8)
    buffer = torch.empty(min(_CHUNK, flat.numel()), dtype=flat.dtype)
    short = torch.empty(buffer.shape, dtype=torch.int16)  # via 16 bits: torch converts float to 8 bits slowly
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK]
        scaled, steps = buffer[: part.numel()], short[: part.numel()]
        torch.add(shift, part, alpha=1 / scale, out=scaled)
        out[start : start + _CHUNK].copy_(steps.copy_(scaled.clamp_(0, 255)))
    return out.view(x.shape)


@_one_operator
def quantize_symmetric(x: torch.Tensor, scale: float) -> torch.Tensor:
    """``clamp(floor(x / scale + 0.5), -128, 127)`` as int8."""
    return (x.detach() / scale + 0.5).floor_().clamp_(-128, 127).to(torch.int8)


@_one_operator
def dequantize(q: torch.Tensor, scale: float, zero_point: int = 0) -> torch.Tensor:
    """``scale * (q - zero_point)`` as float32."""
    return (q.to(torch.float32) - zero_point).mul_(scale)


@_one_operator
def dequantize_weight(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """An int8 weight with one scale per output channel (dimension 0) as float32."""
    return q.to(torch.float32) * scales.view(-1, *[1] * (q.dim() - 1))


@_one_operator
def conv2d_of_levels(
    x: torch.Tensor,
    levels: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> torch.Tensor:
    """A convolution with the int8 levels of a weight, given as float32; its result times the scales ``[out, 1, 1]``,
    plus the bias ``[out, 1, 1]``. TensorRT-RTX 1.7 uses int8 kernels only for weights with a single scale.
    """
    result = F.conv2d(x, levels, None, stride, padding, dilation, groups) * scales
    return result if bias is None else result.add_(bias)


@_one_operator
def quantized_add(
    a: torch.Tensor,
    a_scale: float,
    a_zero_point: int,
    b: torch.Tensor,
    b_scale: float,
    b_zero_point: int,
    scale: float,
    zero_point: int,
    relu: bool = False,
) -> torch.Tensor:
    """Sum of two uint8 tensors, optionally through ReLU, as uint8.

    Computed in float32, chunk by chunk. (oneDNN's ``qadd`` gives zeros for zero points of about 100 and more.)
    """
    if a.shape != b.shape:
        a, b = torch.broadcast_tensors(a, b)
    if a.stride() != b.stride() or not (a.is_contiguous() or a.is_contiguous(memory_format=torch.channels_last)):
        a, b = a.contiguous(), b.contiguous()
    out = torch.empty_like(a)
    first, second, result = (t.as_strided((t.numel(),), (1,)) for t in (a, b, out))
    shift = zero_point + 0.5 - (a_scale * a_zero_point + b_scale * b_zero_point) / scale
    low = zero_point + 0.5 if relu else 0.0
    buffers = torch.empty(2, min(_CHUNK, a.numel()), device=a.device)
    for start in range(0, a.numel(), _CHUNK):
        size = min(_CHUNK, a.numel() - start)
        x, y = buffers[0, :size], buffers[1, :size]
        x.copy_(first[start : start + size])
        y.copy_(second[start : start + size])
        x.mul_(a_scale / scale).add_(y, alpha=b_scale / scale).add_(shift).clamp_(low, 255)
        result[start : start + size].copy_(x)
    return out


@_one_operator
def quantized_relu(q: torch.Tensor, zero_point: int) -> torch.Tensor:
    """ReLU of a uint8 tensor: values are clamped at its zero point."""
    return q.clamp_min(zero_point)


@_one_operator
def quantized_max_pool2d(
    q: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> torch.Tensor:
    """Max pooling of uint8 ``[N, C, H, W]``; the order of the integers is that of the values."""
    kernel, pads, dilations = (_pair(v) for v in (kernel_size, padding, dilation))
    return torch.ops.quantized.max_pool2d(
        q, kernel, kernel if stride is None else _pair(stride), pads, dilations, ceil_mode
    )


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
