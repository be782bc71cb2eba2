"""Convolutions, plain and transposed, one to three dimensions."""

from __future__ import annotations

import torch.nn as nn

from fxlib.lowering.onnx.arguments import per_dimension
from fxlib.lowering.onnx.converters.shape import pad as pad_tensor
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import aten, module, op


def _same_padding(ctx, weight, dilation):
    # torch's "same": total = dilation * (kernel - 1), an odd element goes to the end.
    totals = [d * (k - 1) for d, k in zip(dilation, ctx.sizes(weight)[2:], strict=True)]
    return [t // 2 for t in totals], [t - t // 2 for t in totals]


def _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups, output_padding=None, rank=None):
    """A convolution over `n` dimensions; transposed if `output_padding` is given."""
    dilation = per_dimension(dilation, n)
    if padding == "same":
        begin, end = _same_padding(ctx, weight, dilation)
    else:
        begin = end = per_dimension(0 if padding == "valid" else padding, n)
    return ctx.batched(
        input,
        n,
        lambda batch: ctx.op(
            "Conv" if output_padding is None else "ConvTranspose",
            batch,
            weight,
            bias,
            strides=per_dimension(stride, n),
            pads=[*begin, *end],
            dilations=dilation,
            group=groups,
            kernel_shape=[int(k) for k in ctx.sizes(weight)[2:]],
            output_padding=None if output_padding is None else per_dimension(output_padding, n),
        ),
        rank,
    )


def _register(n: int) -> None:
    @op(f"conv{n}d")
    def conv(ctx, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups)

    @op(f"conv_transpose{n}d")
    def conv_transpose(ctx, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups, output_padding)

    @module(getattr(nn, f"Conv{n}d"))
    def conv_module(ctx, m, input):
        padding, rank = m.padding, ctx.rank(input)
        if m.padding_mode != "zeros":
            input, padding = pad_tensor(ctx, input, m._reversed_padding_repeated_twice, mode=m.padding_mode), 0
        weight, bias = ctx.own(m, "weight"), ctx.own(m, "bias")
        return _convolve(ctx, n, input, weight, bias, m.stride, padding, m.dilation, m.groups, rank=rank)

    @module(getattr(nn, f"ConvTranspose{n}d"))
    def transpose_module(ctx, m, input, output_size=None):
        if output_size is not None:
            raise Unsupported("a transposed convolution called with output_size is not supported")
        weight, bias = ctx.own(m, "weight"), ctx.own(m, "bias")
        return conv_transpose(ctx, input, weight, bias, m.stride, m.padding, m.output_padding, m.groups, m.dilation)


for _n in (1, 2, 3):
    _register(_n)


@aten("convolution", "_convolution")
def convolution(ctx, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *rest):
    n = ctx.rank(input) - 2
    more = output_padding if transposed else None
    return _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups, more)
