"""Tensors made from sizes alone: zeros, full, arange, and their `_like` forms."""

from __future__ import annotations

import warnings
from functools import reduce

import numpy as np
import onnx_ir as ir
import torch

from fxlib.lowering.onnx.arguments import spread
from fxlib.lowering.onnx.dtypes import Unsupported, onnx_type
from fxlib.lowering.onnx.registry import op, refused


def _filled(ctx, value):
    kind = ctx.fake.dtype
    if all(isinstance(s, int) for s in ctx.fake.shape) and not isinstance(value, ir.Value):
        scalar = ctx.constant(value, kind)
        return scalar if not ctx.fake.shape else ctx.op("Expand", scalar, ctx.shape(ctx.fake.shape))
    return ctx.op("Expand", ctx.cast(value, kind), ctx.shape(ctx.fake.shape))


@op("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "zero")
def zeros(ctx, *args, **kwargs):
    return _filled(ctx, 0)


@op("ones", "ones_like", "new_ones")
def ones(ctx, *args, **kwargs):
    return _filled(ctx, 1)


@op("full", "new_full", "full_like", "fill")
def full(ctx, *args, fill_value=None, value=None, **kwargs):
    name = getattr(ctx.current.target, "__name__", str(ctx.current.target))
    position = 2 if "new_full" in name else 1
    value = fill_value if fill_value is not None else value
    return _filled(ctx, args[position] if value is None else value)


@op("range")
def range_(ctx, *args, start=0, end=None, step=1, **kwargs):
    start, end, step = _bounds(args, start, end, step)
    if not all(isinstance(v, (int, float)) for v in (start, end, step)):
        raise Unsupported("torch.range with bounds known only at run time is not supported; use torch.arange")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        return ctx.constant(torch.range(start, end, step, dtype=ctx.fake.dtype).numpy())


def _bounds(args, start, end, step):
    if len(args) == 1:
        return start, args[0], step
    return (*args, *(start, end, step)[len(args) :])


@op("arange")
def arange(ctx, *args, start=0, end=None, step=1, dtype=None, **kwargs):
    start, end, step = _bounds(args, start, end, step)
    kind = ctx.fake.dtype
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        return ctx.constant(torch.arange(start, end, step, dtype=kind).numpy())
    if kind not in (torch.int64, torch.int32, torch.float32, torch.float64, torch.int16):
        raise Unsupported(f"arange of {kind} with bounds known only at run time is not supported")
    return ctx.op("Range", *(ctx.cast(v, kind) for v in (start, end, step)))


@op("linspace")
def linspace(ctx, start, end, steps, **kwargs):
    ctx.static(steps, "the number of steps of linspace")
    return ctx.constant(torch.linspace(start, end, steps, dtype=ctx.fake.dtype))


@op("eye")
def eye(ctx, n, m=None, **kwargs):
    return ctx.cast(_diagonal(ctx, (n, n if m is None else m)), ctx.fake.dtype)


def _diagonal(ctx, sizes):
    """Where the indices of all dimensions are equal, as a mask of these sizes."""
    places, rank = [], len(sizes)
    for axis, size in enumerate(sizes):
        each = np.arange(size) if isinstance(size, int) else ctx.op("Range", *map(ctx.number, (0, size, 1)))
        if rank > 1:
            others = [d for d in range(rank) if d != axis]
            each = np.expand_dims(each, others) if isinstance(size, int) else ctx.op("Unsqueeze", each, others)
        places.append(each)
    if all(isinstance(size, int) for size in sizes):
        return ctx.constant(np.logical_and.reduce(np.broadcast_arrays(*(each == places[0] for each in places))))
    equal = [ctx.op("Equal", places[0], each, dtype=torch.bool) for each in places[1:]]
    return reduce(lambda a, b: ctx.op("And", a, b), equal)


@op("fill_diagonal")
def fill_diagonal(ctx, input, fill_value, wrap=False):
    sizes, kind = ctx.sizes(input), ctx.dtype(input)
    if wrap:
        raise Unsupported("fill_diagonal with wrap=True is not supported")
    return ctx.op("Where", _diagonal(ctx, sizes), ctx.cast(fill_value, kind), input, dtype=kind)


@op("tensor", "scalar_tensor", "as_tensor", methods=False)
def tensor(ctx, data, **kwargs):
    if isinstance(data, ir.Value):
        return ctx.cast(data, ctx.fake.dtype)
    if isinstance(data, torch.SymInt):
        return ctx.cast(ctx.number(data), ctx.fake.dtype)
    return (
        ctx.constant(data, ctx.fake.dtype)
        if not isinstance(data, (list, tuple))
        else ctx.constant(np.array(data, dtype=onnx_type(ctx.fake.dtype).numpy()))
    )


@op("meshgrid")
def meshgrid(ctx, *tensors, indexing="ij"):
    values, results = spread(tensors), []
    for i, (value, example) in enumerate(zip(values, ctx.fake, strict=True)):
        axis = i if indexing == "ij" or i > 1 else 1 - i
        shape = [1] * len(values)
        shape[axis] = -1
        results.append(ctx.op("Expand", ctx.op("Reshape", value, ctx.constant(shape)), ctx.shape(example.shape)))
    return tuple(results)


refused(
    "it draws random numbers, and the engine has another generator, so results would differ from PyTorch's", "FX406",
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "normal",
    "randperm",
)  # fmt: skip
