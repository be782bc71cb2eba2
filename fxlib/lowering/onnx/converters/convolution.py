"""Convolutions, plain and transposed, one to three dimensions."""

from __future__ import annotations

import torch.nn as nn

from fxlib.lowering.onnx.converters.shape import pad as pad_tensor
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, op


def _tuple(value, n):
    return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 and n > 1 else 1)


def _same_padding(ctx, input, weight, dilation, n):
    # torch's "same": total = dilation * (kernel - 1), the odd one goes to the end.
    totals = [d * (k - 1) for d, k in zip(dilation, ctx.sizes(weight)[2:], strict=True)]
    return [t // 2 for t in totals], [t - t // 2 for t in totals]


def _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups, batched=None):
    stride, dilation = _tuple(stride, n), _tuple(dilation, n)
    if padding == "same":
        begin, end = _same_padding(ctx, input, weight, dilation, n)
    else:
        begin = end = _tuple(0 if padding == "valid" else padding, n)
    batched = ctx.rank(input) == n + 2 if batched is None else batched
    if not batched:
        input = ctx.op("Unsqueeze", input, ctx.constant([0]))
    kernel = [int(k) for k in ctx.sizes(weight)[2:]]
    result = ctx.op(
        "Conv",
        input,
        weight,
        bias,
        strides=stride,
        pads=[*begin, *end],
        dilations=dilation,
        group=groups,
        kernel_shape=kernel,
    )
    return result if batched else ctx.op("Squeeze", result, ctx.constant([0]))


def _transpose(ctx, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    padding = _tuple(padding, n)
    batched = ctx.rank(input) == n + 2
    if not batched:
        input = ctx.op("Unsqueeze", input, ctx.constant([0]))
    result = ctx.op(
        "ConvTranspose",
        input,
        weight,
        bias,
        strides=_tuple(stride, n),
        pads=[*padding, *padding],
        output_padding=_tuple(output_padding, n),
        dilations=_tuple(dilation, n),
        group=groups,
        kernel_shape=[int(k) for k in ctx.sizes(weight)[2:]],
    )
    return result if batched else ctx.op("Squeeze", result, ctx.constant([0]))


def _register(n: int) -> None:
    @op(f"conv{n}d")
    def conv(ctx, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return _convolve(ctx, n, input, weight, bias, stride, padding, dilation, groups)

    @op(f"conv_transpose{n}d")
    def conv_transpose(ctx, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return _transpose(ctx, n, input, weight, bias, stride, padding, output_padding, groups, dilation)

    @module(getattr(nn, f"Conv{n}d"))
    def conv_module(ctx, m, input):
        padding = m.padding
        batched = ctx.rank(input) == n + 2
        if m.padding_mode != "zeros":
            modes = {"reflect": "reflect", "replicate": "replicate", "circular": "circular"}
            input = pad_tensor(ctx, input, m._reversed_padding_repeated_twice, mode=modes[m.padding_mode])
            padding = 0
        return _convolve(ctx, n, input, *_weights(ctx, m), m.stride, padding, m.dilation, m.groups, batched)

    @module(getattr(nn, f"ConvTranspose{n}d"))
    def transpose_module(ctx, m, input, output_size=None):
        if output_size is not None:
            raise Unsupported("a transposed convolution with output_size chooses its padding at run time")
        return _transpose(ctx, n, input, *_weights(ctx, m), m.stride, m.padding, m.output_padding, m.groups, m.dilation)


def _weights(ctx, m):
    return (
        ctx.own(m, "weight"),
        ctx.own(m, "bias"),
    )


for _n in (1, 2, 3):
    _register(_n)


@op("convolution", methods=False)
def convolution(ctx, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = ctx.rank(input) - 2
    if transposed:
        return _transpose(
            ctx, n, input, weight, bias, list(stride), list(padding), list(output_padding), groups, list(dilation)
        )
    return _convolve(ctx, n, input, weight, bias, list(stride), list(padding), list(dilation), groups)
