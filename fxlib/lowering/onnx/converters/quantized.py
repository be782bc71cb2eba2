"""Quantize and dequantize, so that a graph with Q/DQ pairs keeps its int8 meaning in the engine."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import named, op


def _scalar(ctx, value, dtype):
    if isinstance(value, ir.Value):
        return ctx.cast(value, dtype)
    return ctx.constant(value, dtype)


def _kind(dtype):
    if dtype not in (torch.int8, torch.uint8):
        raise Unsupported(f"quantization to {dtype} is not supported, only to int8 and uint8")
    return dtype


def _quantized(ctx, input, scale, zero_point, low, high, dtype, axis=None):
    kind = _kind(dtype)
    scale, zero = _scalar(ctx, scale, torch.float32), _scalar(ctx, zero_point, kind)
    levels = ctx.op("QuantizeLinear", input, scale, zero, axis=axis, dtype=kind)
    # A narrower range than the type's (e.g. -127..127) needs clipping; Q saturates at the type's own range.
    info = torch.iinfo(kind)
    if (low, high) == (info.min, info.max):
        return levels
    return ctx.op("Clip", levels, ctx.constant(low, kind), ctx.constant(high, kind))


def _dequantized(ctx, input, scale, zero_point, dtype, axis=None):
    scale, zero = _scalar(ctx, scale, torch.float32), _scalar(ctx, zero_point, _kind(dtype))
    return ctx.op("DequantizeLinear", input, scale, zero, axis=axis, dtype=torch.float32)


@op("quantized_decomposed::quantize_per_tensor", methods=False)
def quantize_per_tensor(ctx, input, scale, zero_point, quant_min, quant_max, dtype):
    return _quantized(ctx, input, scale, zero_point, quant_min, quant_max, dtype)


@op("quantized_decomposed::dequantize_per_tensor", methods=False)
def dequantize_per_tensor(ctx, input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype=None):
    return _dequantized(ctx, input, scale, zero_point, dtype)


@op("quantized_decomposed::quantize_per_channel", methods=False)
def quantize_per_channel(ctx, input, scales, zero_points, axis, quant_min, quant_max, dtype):
    return _quantized(ctx, input, scales, zero_points, quant_min, quant_max, dtype, axis)


@op("quantized_decomposed::dequantize_per_channel", methods=False)
def dequantize_per_channel(ctx, input, scales, zero_points, axis, quant_min, quant_max, dtype, *, out_dtype=None):
    return _dequantized(ctx, input, scales, zero_points, dtype, axis)


@op("fake_quantize_per_channel_affine")
def fake_quantize_per_channel(ctx, input, scale, zero_point, axis, quant_min, quant_max):
    kind = torch.int8 if quant_min < 0 else torch.uint8
    levels = _quantized(ctx, input, scale, zero_point, quant_min, quant_max, kind, axis)
    return _dequantized(ctx, levels, scale, zero_point, kind, axis)


@op("fake_quantize_per_tensor_affine")
def fake_quantize_per_tensor(ctx, input, scale, zero_point, quant_min, quant_max):
    return fake_quantize_per_channel(ctx, input, scale, zero_point, None, quant_min, quant_max)


@named("fxlib.passes.quantize.functions.quantize")
def quantize(ctx, x, scale, zero_point):
    """The Q of `fxlib.passes.quantize`. It rounds halves up, ONNX to even, so results may differ by one."""
    return quantize_per_tensor(ctx, x, scale, zero_point, 0, 255, torch.uint8)


@named("fxlib.passes.quantize.functions.quantize_symmetric")
def quantize_symmetric(ctx, x, scale):
    return quantize_per_tensor(ctx, x, scale, 0, -128, 127, torch.int8)


@named("fxlib.passes.quantize.functions.dequantize")
def dequantize(ctx, q, scale, zero_point):
    return dequantize_per_tensor(ctx, q, scale, zero_point, 0, 255, ctx.dtype(q))


@named("fxlib.passes.quantize.functions.dequantize_weight")
def dequantize_weight(ctx, q, scales):
    """One scale for each output channel, and zero point 0 for an int8 weight."""
    return ctx.op("DequantizeLinear", q, ctx.cast(scales, torch.float32), axis=0, dtype=torch.float32)


@named("fxlib.passes.quantize.functions.conv2d_of_levels")
def conv2d_of_levels(ctx, x, levels, scales, bias, stride, padding, dilation, groups):
    """Q and DQ with scale 1 tell an engine that the levels are integers; it folds them into its weight."""
    weight = dequantize(ctx, quantize_symmetric(ctx, levels, 1.0), 1.0, 0)
    result = ctx.op(
        "Conv", x, weight, strides=list(stride), pads=[*padding, *padding], dilations=list(dilation), group=groups,
        kernel_shape=[int(k) for k in ctx.sizes(levels)[2:]],
    )  # fmt: skip
    result = ctx.op("Mul", result, scales)
    return result if bias is None else ctx.op("Add", result, bias)
