"""Writing into parts of a tensor: scatter, index_put and masks, slices and fills."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from fxlib.lowering.onnx.context import INT64_MAX
from fxlib.lowering.onnx.converters.elementwise import floor_divide
from fxlib.lowering.onnx.converters.indexing import MASKS, joined_indices
from fxlib.lowering.onnx.dtypes import Unsupported, limits
from fxlib.lowering.onnx.registry import op


@op("scatter")
def scatter(ctx, input, dim, index, src=None, value=None, *, reduce=None):
    if reduce is not None:
        raise Unsupported(f"scatter with reduce={reduce!r} is not supported")
    src = src if src is not None else value
    if not isinstance(src, ir.Value):
        src = ctx.op("Expand", ctx.constant(src, ctx.dtype(input)), ctx.shape(ctx.sizes(index)))
    else:
        src = ctx.slices(src, ctx.sizes(index))
    return ctx.op("ScatterElements", input, ctx.cast(index, torch.int64), src, axis=dim)


@op("scatter_add")
def scatter_add(ctx, input, dim, index, src):
    src = ctx.slices(src, ctx.sizes(index))
    return ctx.op("ScatterElements", input, ctx.cast(index, torch.int64), src, axis=dim, reduction="add")


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@op("scatter_reduce")
def scatter_reduce(ctx, input, dim, index, src, reduce, *, include_self=True):
    kind, sizes, index = ctx.dtype(input), ctx.sizes(input), ctx.cast(index, torch.int64)
    into = lambda base, given, how: ctx.op("ScatterElements", base, index, given, axis=dim, reduction=how)  # noqa: E731
    taken = ctx.sizes(index)
    same = lambda number: ctx.op("Expand", ctx.constant(number, kind), ctx.shape(taken))  # noqa: E731
    if not include_self:
        # Start with a write that changes nothing.
        lowest, highest = limits(kind)
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": lowest, "amin": highest}[reduce]
        input = into(input, same(neutral), None)
    src = ctx.slices(src, taken)
    result = into(input, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    ones = ctx.op("Expand", ctx.constant(1, kind), ctx.shape(sizes))
    count = into(ones if include_self else into(ones, same(0), None), same(1), "add")
    mean = ctx.op("Div", result, ctx.op("Max", count, ctx.constant(1, kind)))
    return mean if kind.is_floating_point else floor_divide(ctx, result, ctx.op("Max", count, ctx.constant(1, kind)))


@op("index_put")
def index_put(ctx, input, indices, values, accumulate=False):
    values = ctx.cast(values, ctx.dtype(input))
    given = [item for item in indices if item is not None]
    if len(given) == 1 and ctx.dtype(given[0]) in MASKS:
        mask = ctx.cast(given[0], torch.bool)
        return _masked_put(ctx, input, indices.index(given[0]), mask, values, accumulate)
    if any(ctx.dtype(item) in MASKS for item in given):
        raise Unsupported("index_put with a mask among other indices is not supported", "FX402")
    rank, places = ctx.rank(input), [place for place, item in enumerate(indices) if item is not None]
    lead = torch.broadcast_shapes(*(tuple(ctx.sizes(item)) for item in given))
    rest = [axis for axis in range(rank) if axis not in places]
    if places != list(range(places[0], places[0] + len(places))) and places[0] != 0:
        raise Unsupported("index_put with a slice between tensor indices is not supported")
    joined = joined_indices(ctx, given, lead)
    # ScatterND wants the indexed dimensions first; in the values they are where the first index was.
    front = [*places, *rest]
    adjacent = places == list(range(places[0], places[0] + len(places)))
    before = places[0] if adjacent else 0
    sizes = ctx.sizes(input)
    whole = [*(sizes[axis] for axis in rest[:before]), *lead, *(sizes[axis] for axis in rest[before:])]
    values = ctx.op("Expand", values, ctx.shape(whole))
    count = len(lead)
    order = [*range(before, before + count), *range(before), *range(before + count, len(whole))]
    values = ctx.op("Transpose", values, perm=order)
    how = "add" if accumulate else None
    written = ctx.op("ScatterND", ctx.op("Transpose", input, perm=front), joined, values, reduction=how)
    return ctx.op("Transpose", written, perm=[front.index(axis) for axis in range(rank)])


def _masked_put(ctx, input, place, mask, values, accumulate):
    """Write where a mask is true; only one value, or one for each row, since the number of positions is unknown."""
    rank, covered = ctx.rank(input), ctx.rank(mask)
    several = ctx.rank(values) > rank - covered
    if place or (several and ctx.sizes(values)[0] != 1):
        raise Unsupported("the number of values that are written by a mask depends on tensor values", "FX402")
    if several:
        values = ctx.op("Squeeze", values, ctx.constant([0]))
    mask = ctx.op("Unsqueeze", mask, ctx.constant(list(range(covered, rank)))) if covered < rank else mask
    new = ctx.op("Add", input, values) if accumulate else values
    return ctx.op("Where", mask, new, input, dtype=ctx.dtype(input))


@op("masked_scatter")
def masked_scatter(ctx, input, mask, source):
    flat = lambda value: ctx.op("Reshape", value, ctx.constant([-1]))  # noqa: E731
    mask = ctx.op("Expand", mask, ctx.shape(ctx.sizes(input)))
    # The n-th true position takes the n-th value.
    count = ctx.op("CumSum", flat(ctx.cast(mask, torch.int64)), ctx.constant(0))
    turn = ctx.op("Max", ctx.op("Sub", count, ctx.constant(1)), ctx.constant(0))
    taken = ctx.op("Gather", flat(source), turn, axis=0)
    kind = ctx.dtype(input)
    return ctx.op("Where", mask, ctx.reshape(taken, ctx.sizes(input)), input, dtype=kind)


@op("select_scatter")
def select_scatter(ctx, input, src, dim, index):
    dim %= ctx.rank(input)
    size = ctx.static(ctx.sizes(input)[dim], "the size of the dimension written by select_scatter")
    return _slice_write(
        ctx, input, ctx.op("Unsqueeze", src, ctx.constant([dim])), dim, index % size, index % size + 1, size
    )


@op("slice_scatter")
def slice_scatter(ctx, input, src, dim=0, start=None, end=None, step=1):
    dim %= ctx.rank(input)
    size = ctx.static(ctx.sizes(input)[dim], "the size of the dimension written by slice_scatter")
    begin, stop, step = slice(start, end, step).indices(size)
    if step == 1:
        return _slice_write(ctx, input, src, dim, begin, stop, size)
    sizes = list(ctx.sizes(input))
    sizes[dim] = len(range(begin, stop, step))
    places = ctx.constant(np.arange(begin, stop, step).reshape([-1 if d == dim else 1 for d in range(len(sizes))]))
    src = ctx.op("Expand", ctx.cast(src, ctx.dtype(input)), ctx.shape(sizes))
    return ctx.op("ScatterElements", input, ctx.op("Expand", places, ctx.shape(sizes)), src, axis=dim)


def _slice_write(ctx, input, src, dim, begin, stop, size):
    src = ctx.cast(src, ctx.dtype(input))
    shape = list(ctx.sizes(input))
    shape[dim] = stop - begin
    parts = [ctx.op("Expand", src, ctx.shape(shape))]
    if begin:
        parts.insert(0, ctx.slice(input, dim, 0, begin))
    if stop < size:
        parts.append(ctx.slice(input, dim, stop, INT64_MAX))
    return ctx.op("Concat", *parts, axis=dim) if len(parts) > 1 else parts[0]


@op("index_fill")
def index_fill(ctx, input, dim, index, value):
    size = ctx.static(ctx.sizes(input)[dim], "the size of the dimension written by index_fill")
    rank = ctx.rank(input)
    positions = ctx.op("Unsqueeze", ctx.constant(list(range(size))), ctx.constant([1]))
    index = ctx.op("Mod", ctx.cast(index, torch.int64), ctx.constant(size))  # -1 is the last
    hit = ctx.op("Equal", positions, index, dtype=torch.bool)
    mask = ctx.cast(ctx.op("ReduceMax", ctx.cast(hit, torch.int32), ctx.constant([1]), keepdims=0), torch.bool)
    mask = ctx.reshape(mask, [size if d == dim % rank else 1 for d in range(rank)])
    return ctx.op("Where", mask, ctx.cast(value, ctx.dtype(input)), input, dtype=ctx.dtype(input))
