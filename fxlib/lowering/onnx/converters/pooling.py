"""Pooling: maximum, average, adaptive."""

from __future__ import annotations

import torch
import torch.nn as nn

from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, op


def _tuple(value, n):
    return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)


def _batched(ctx, n, input, pool):
    if ctx.rank(input) == n + 2:
        return pool(input)
    axis = ctx.constant([0])
    return ctx.op("Squeeze", pool(ctx.op("Unsqueeze", input, axis)), axis)


def _max_pool(ctx, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    padding, kernel = _tuple(padding, n), _tuple(kernel_size, n)
    return _batched(
        ctx,
        n,
        input,
        lambda x: ctx.op(
            "MaxPool",
            x,
            kernel_shape=kernel,
            strides=kernel if stride in (None, [], ()) else _tuple(stride, n),
            pads=[*padding, *padding],
            dilations=_tuple(dilation, n),
            ceil_mode=int(ceil_mode),
        ),
    )


def _avg_pool(ctx, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    if divisor:
        raise Unsupported("avg_pool with divisor_override")
    padding, kernel = _tuple(padding, n), _tuple(kernel_size, n)
    if ceil_mode and count_include_pad and any(padding):
        # ONNX counts the cells that ceil_mode adds beyond the padding; torch does not.
        raise Unsupported("avg_pool with ceil_mode, count_include_pad and padding together")
    return _batched(
        ctx,
        n,
        input,
        lambda x: ctx.op(
            "AveragePool",
            x,
            kernel_shape=kernel,
            strides=kernel if stride in (None, [], ()) else _tuple(stride, n),
            pads=[*padding, *padding],
            ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad),
        ),
    )


def _adaptive(ctx, n, input, output_size, average: bool):
    wanted = _tuple(output_size, n)
    sizes = list(ctx.sizes(input))[-n:]
    wanted = [s if w is None else w for w, s in zip(wanted, sizes, strict=True)]
    if all(isinstance(w, int) and w == 1 for w in wanted):
        return _batched(ctx, n, input, lambda x: ctx.op("GlobalAveragePool" if average else "GlobalMaxPool", x))
    sizes = [ctx.static(s, "the size that adaptive pooling divides") for s in sizes]
    if wanted == sizes:
        return input
    if any(s % w for s, w in zip(sizes, wanted, strict=True)):
        if not average:
            raise Unsupported(f"adaptive max pooling from {sizes} to {wanted} has windows of different sizes")
        return _uneven_average(ctx, n, input, sizes, wanted)
    kernel = [s // w for s, w in zip(sizes, wanted, strict=True)]
    if average:
        return _avg_pool(ctx, n, input, kernel, kernel, 0, False, True, None)
    return _max_pool(ctx, n, input, kernel, kernel, 0, 1, False)


def _uneven_average(ctx, n, input, sizes, wanted):
    # Averages over windows of different sizes are a product with a constant matrix along each axis.
    rank = ctx.rank(input)
    for offset, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
        axis = rank - n + offset
        weights = torch.zeros(size, want)
        for i in range(want):
            start, stop = (i * size) // want, -((-(i + 1) * size) // want)
            weights[start:stop, i] = 1 / (stop - start)
        order = [*range(axis), *range(axis + 1, rank), axis]
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        matrix = ctx.cast(ctx.constant(weights.numpy()), ctx.dtype(input))
        input = ctx.op("Transpose", ctx.op("MatMul", ctx.op("Transpose", input, perm=order), matrix), perm=back)
    return input


def _register(n: int) -> None:
    @op(f"max_pool{n}d", f"max_pool{n}d_with_indices")
    def max_pool(ctx, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise Unsupported("max_pool with return_indices")
        result = _max_pool(ctx, n, input, kernel_size, stride, padding, dilation, ceil_mode)
        return result if isinstance(ctx.fake, torch.Tensor) else (result, None)

    @op(f"avg_pool{n}d")
    def avg_pool(
        ctx, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        return _avg_pool(ctx, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    @op(f"adaptive_avg_pool{n}d", f"_adaptive_avg_pool{n}d")
    def adaptive_avg(ctx, input, output_size):
        return _adaptive(ctx, n, input, output_size, average=True)

    @op(f"adaptive_max_pool{n}d")
    def adaptive_max(ctx, input, output_size, return_indices=False):
        if return_indices:
            raise Unsupported("adaptive_max_pool with return_indices")
        return _adaptive(ctx, n, input, output_size, average=False)

    # torch.nn.functional dispatches max_pool through a boolean_dispatch wrapper, registered above by its name.
    @module(getattr(nn, f"MaxPool{n}d"))
    def max_module(ctx, m, input):
        return max_pool(ctx, input, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices)

    @module(getattr(nn, f"AvgPool{n}d"))
    def avg_module(ctx, m, input):
        return avg_pool(
            ctx,
            input,
            m.kernel_size,
            m.stride,
            m.padding,
            m.ceil_mode,
            m.count_include_pad,
            getattr(m, "divisor_override", None),
        )

    @module(getattr(nn, f"AdaptiveAvgPool{n}d"))
    def adaptive_avg_module(ctx, m, input):
        return adaptive_avg(ctx, input, m.output_size)

    @module(getattr(nn, f"AdaptiveMaxPool{n}d"))
    def adaptive_max_module(ctx, m, input):
        return adaptive_max(ctx, input, m.output_size, m.return_indices)


for _n in (1, 2, 3):
    _register(_n)
