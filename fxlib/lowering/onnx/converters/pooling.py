"""Pooling: maximum, average, adaptive."""

from __future__ import annotations

import operator

import torch
import torch.nn as nn

from fxlib.lowering.onnx.arguments import per_dimension
from fxlib.lowering.onnx.context import product
from fxlib.lowering.onnx.converters.shape import pad as pad_tensor
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, of_module, op


def _pool(ctx, n, kind, input, kernel_size, stride, padding, ceil_mode, rank=None, outputs=1, **attributes):
    kernel, padding = per_dimension(kernel_size, n), per_dimension(padding, n)

    def convert(batch):
        results = ctx.op(
            kind,
            batch,
            kernel_shape=kernel,
            strides=kernel if stride in (None, [], ()) else per_dimension(stride, n),
            pads=[*padding, *padding],
            ceil_mode=int(ceil_mode),
            outputs=outputs,
            **attributes,
        )
        if not ceil_mode:
            return results
        # With ceil_mode, ONNX also has a window that begins in the padding; torch leaves it out.
        fake = ctx.fake if isinstance(ctx.fake, torch.Tensor) else ctx.fake[0]
        axes = list(range(2, n + 2))
        ends = [ctx.shape([0] * n), ctx.shape(fake.shape[-n:]), ctx.constant(axes)]
        cut = tuple(ctx.op("Slice", each, *ends) for each in (results if outputs > 1 else (results,)))
        return cut if outputs > 1 else cut[0]

    return ctx.batched(input, n, convert, rank)


def _avg_pool(ctx, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    rank = ctx.rank(input)
    if (divisor or (ceil_mode and count_include_pad)) and any(per_dimension(padding, n)):
        # ONNX counts the cells that ceil_mode adds beyond the padding; torch does not. Explicit padding makes all cells
        # count.
        input = pad_tensor(ctx, input, [size for each in reversed(per_dimension(padding, n)) for size in (each, each)])
        padding, count_include_pad = 0, False
    if divisor and ceil_mode:
        raise Unsupported("average pooling with divisor_override and ceil_mode together is not supported")
    count = int(count_include_pad)
    result = _pool(
        ctx, n, "AveragePool", input, kernel_size, stride, padding, ceil_mode, rank=rank, count_include_pad=count
    )
    if not divisor:
        return result
    return ctx.op("Mul", result, ctx.constant(product(per_dimension(kernel_size, n)) / divisor, ctx.dtype(input)))


def _adaptive(ctx, n, input, output_size, average: bool):
    wanted = per_dimension(output_size, n)
    sizes = list(ctx.sizes(input))[-n:]
    wanted = [s if w is None else w for w, s in zip(wanted, sizes, strict=True)]
    if all(isinstance(w, int) and w == 1 for w in wanted):
        kind = "GlobalAveragePool" if average else "GlobalMaxPool"
        return ctx.batched(input, n, lambda batch: ctx.op(kind, batch))
    sizes = [ctx.static(s, "the size that adaptive pooling divides") for s in sizes]
    if wanted == sizes:
        return input
    if any(s % w for s, w in zip(sizes, wanted, strict=True)):
        if not average:
            raise Unsupported(f"adaptive max pooling from {sizes} to {wanted} is not supported: windows differ in size")
        return _uneven_average(ctx, n, input, sizes, wanted)
    kernel = [s // w for s, w in zip(sizes, wanted, strict=True)]
    return _pool(ctx, n, "AveragePool" if average else "MaxPool", input, kernel, kernel, 0, False)


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
        more = {"dilations": per_dimension(dilation, n)}
        if isinstance(ctx.fake, torch.Tensor):
            return _pool(ctx, n, "MaxPool", input, kernel_size, stride, padding, ceil_mode, **more)
        if all(user.target is operator.getitem and user.args[1] == 0 for user in ctx.current.users):
            return _pool(ctx, n, "MaxPool", input, kernel_size, stride, padding, ceil_mode, **more), None
        if ctx.rank(input) != n + 2:
            raise Unsupported("max pooling that returns indices is supported with a batch only")
        kinds = (ctx.dtype(input), torch.int64)
        result, places = _pool(
            ctx, n, "MaxPool", input, kernel_size, stride, padding, ceil_mode, outputs=2, dtype=kinds, **more
        )
        # torch counts within the channel of an image, ONNX through the whole tensor.
        return result, ctx.op("Mod", places, ctx.number(product(ctx.sizes(input)[2:])))

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
            raise Unsupported("adaptive max pooling with return_indices=True is not supported")
        return _adaptive(ctx, n, input, output_size, average=False)

    # torch.nn.functional dispatches max_pool through a boolean_dispatch wrapper, registered above by its name.
    shared = ("kernel_size", "stride", "padding")
    module(getattr(nn, f"MaxPool{n}d"))(of_module(max_pool, *shared, "dilation", "ceil_mode", "return_indices"))
    divisor = ("divisor_override",) if n > 1 else ()
    module(getattr(nn, f"AvgPool{n}d"))(of_module(avg_pool, *shared, "ceil_mode", "count_include_pad", *divisor))
    module(getattr(nn, f"AdaptiveAvgPool{n}d"))(of_module(adaptive_avg, "output_size"))
    module(getattr(nn, f"AdaptiveMaxPool{n}d"))(of_module(adaptive_max, "output_size", "return_indices"))


for _n in (1, 2, 3):
    _register(_n)
