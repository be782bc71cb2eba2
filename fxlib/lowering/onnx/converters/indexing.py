"""Selection: slices, integer and tensor indices, gather, scatter, embedding, masks."""

from __future__ import annotations

import operator

import onnx_ir as ir
import torch
import torch.nn as nn

from fxlib.lowering.onnx.context import INT64_MAX
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, op


def _one(ctx, value, axis, index):
    if isinstance(index, int):
        return ctx.op("Gather", value, ctx.constant(index), axis=axis)
    return ctx.op("Gather", value, ctx.number(index), axis=axis)


@op("__getitem__", functions=(operator.getitem,))
def getitem(ctx, input, index):
    if isinstance(input, (tuple, list)):
        return input[index]
    index = index if isinstance(index, tuple) else (index,)
    if isinstance(index, list):
        index = (ctx.constant(index),)
    return _basic_then_advanced(ctx, input, index)


def _rank_of(ctx, item) -> int:
    """How many dimensions of the input an index takes up."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, ir.Value) and ctx.dtype(item) == torch.bool:
        return ctx.rank(item)
    return 1


def _basic_then_advanced(ctx, value, index):
    rank = ctx.rank(value)
    taken = sum(_rank_of(ctx, item) for item in index)
    if not any(item is Ellipsis for item in index):
        index = (*index, Ellipsis)
    starts, stops, axes, steps = [], [], [], []
    singles: list[tuple[int, object]] = []
    new_axes: list[int] = []
    tensors: list[tuple[int, ir.Value]] = []
    axis = out = 0
    for item in index:
        if item is Ellipsis:
            axis += rank - taken
            out += rank - taken
        elif item is None:
            new_axes.append(out)
            out += 1
        elif isinstance(item, slice):
            if (item.start, item.stop, item.step) != (None, None, None):
                step = 1 if item.step is None else item.step
                starts.append(0 if item.start is None else item.start)
                stops.append(INT64_MAX if item.stop is None else item.stop)
                axes.append(axis)
                steps.append(step)
            axis += 1
            out += 1
        elif isinstance(item, bool):
            raise Unsupported("an index that is True or False is not supported")
        elif isinstance(item, (int, torch.SymInt)) or (
            isinstance(item, ir.Value) and ctx.rank(item) == 0 and ctx.dtype(item) != torch.bool
        ):
            singles.append((axis, item))
            axis += 1
        elif isinstance(item, (ir.Value, list, tuple)):
            if not isinstance(item, ir.Value):
                item = ctx.bind(ctx.constant(list(item)), torch.empty(len(item), dtype=torch.int64))
            if ctx.dtype(item) == torch.bool:
                raise Unsupported("the size of the result of mask indexing depends on tensor values", "FX402")
            tensors.append((axis, item))
            axis += 1
            out += 1
        else:
            raise Unsupported(f"an index of type {type(item).__name__} is not supported")
    if axes:
        value = ctx.op("Slice", value, ctx.shape(starts), ctx.shape(stops), ctx.constant(axes), ctx.constant(steps))
    if tensors:
        if len(tensors) > 1 and singles:
            raise Unsupported("an integer index together with several tensor indices is not supported")
        value = _advanced(ctx, value, rank, tensors) if not singles else value
        if singles and len(tensors) == 1:
            place, item = tensors[0]
            value = ctx.op("Gather", value, ctx.cast(item, torch.int64), axis=place)
            if ctx.rank(item) != 1:
                raise Unsupported(
                    "an integer index together with a tensor index of several dimensions is not supported"
                )
    for place, item in reversed(singles):
        value = _one(ctx, value, place, item)
    if new_axes:
        value = ctx.op("Unsqueeze", value, ctx.constant(new_axes))
    return value


def _advanced(ctx, value, rank, tensors):
    if len(tensors) == 1:
        axis, item = tensors[0]
        return ctx.op("Gather", value, ctx.cast(item, torch.int64), axis=axis)
    places = [axis for axis, _ in tensors]
    if places != list(range(places[0], places[0] + len(places))):
        raise Unsupported("tensor indices with a slice between them are not supported")
    shape = torch.broadcast_shapes(*(tuple(ctx.sizes(item)) for _, item in tensors))
    parts = [
        ctx.op("Unsqueeze", ctx.op("Expand", ctx.cast(item, torch.int64), ctx.shape(shape)), ctx.constant([len(shape)]))
        for _, item in tensors
    ]
    joined = ctx.op("Concat", *parts, axis=-1)
    if places[0] == 0:
        return ctx.op("GatherND", value, joined)
    # GatherND indexes leading dimensions: bring the indexed ones to the front and the results back.
    front = places + [d for d in range(rank) if d not in places]
    found = ctx.op("GatherND", ctx.op("Transpose", value, perm=front), joined)
    lead, before = len(shape), places[0]
    total = lead + rank - len(places)
    back = [*range(lead, lead + before), *range(lead), *range(lead + before, total)]
    return ctx.op("Transpose", found, perm=back)


@op("index")
def index(ctx, input, indices):
    return _basic_then_advanced(ctx, input, tuple(slice(None) if i is None else i for i in indices))


@op("select", "select_copy")
def select(ctx, input, dim, index):
    return _one(ctx, input, dim % ctx.rank(input), index)


@op("slice", methods=False)
def slice_(ctx, input, dim=0, start=None, end=None, step=1):
    if (start in (None, 0)) and (end is None or end == INT64_MAX) and step == 1:
        return input
    return ctx.slice(
        input, dim % ctx.rank(input), 0 if start is None else start, INT64_MAX if end is None else end, step
    )


@op("narrow")
def narrow(ctx, input, dim, start, length):
    return ctx.slice(input, dim % ctx.rank(input), start, start + length)


@op("index_select")
def index_select(ctx, input, dim, index):
    return ctx.op("Gather", input, ctx.cast(index, torch.int64), axis=dim)


@op("gather")
def gather(ctx, input, dim, index, *, sparse_grad=False):
    return ctx.op("GatherElements", input, ctx.cast(index, torch.int64), axis=dim)


@op("take_along_dim")
def take_along_dim(ctx, input, indices, dim=None):
    if dim is None:
        raise Unsupported("take_along_dim without dim is not supported")
    return ctx.op("GatherElements", input, ctx.cast(indices, torch.int64), axis=dim)


@op("scatter")
def scatter(ctx, input, dim, index, src=None, value=None, *, reduce=None):
    if reduce is not None:
        raise Unsupported(f"scatter with reduce={reduce!r} is not supported")
    src = src if src is not None else value
    if not isinstance(src, ir.Value):
        src = ctx.op("Expand", ctx.constant(src, ctx.dtype(input)), ctx.shape(ctx.sizes(index)))
    return ctx.op("ScatterElements", input, ctx.cast(index, torch.int64), src, axis=dim)


@op("scatter_add")
def scatter_add(ctx, input, dim, index, src):
    return ctx.op("ScatterElements", input, ctx.cast(index, torch.int64), src, axis=dim, reduction="add")


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
    if step != 1:
        raise Unsupported("slice_scatter with a step is not supported")
    begin, stop, _ = slice(start, end).indices(size)
    return _slice_write(ctx, input, src, dim, begin, stop, size)


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
    positions = ctx.constant(list(range(size)))
    hit = ctx.op(
        "Equal", ctx.op("Unsqueeze", positions, ctx.constant([1])), ctx.cast(index, torch.int64), dtype=torch.bool
    )
    mask = ctx.cast(ctx.op("ReduceMax", ctx.cast(hit, torch.int32), ctx.constant([1]), keepdims=0), torch.bool)
    mask = ctx.reshape(mask, [size if d == dim % rank else 1 for d in range(rank)])
    return ctx.op("Where", mask, ctx.cast(value, ctx.dtype(input)), input, dtype=ctx.dtype(input))


@op("embedding", methods=False)
def embedding(ctx, input, weight, padding_idx=None, max_norm=None, *rest, **kwargs):
    if str(getattr(ctx.current, "target", "")).startswith("aten."):
        input, weight = weight, input  # aten.embedding takes the weight first
        max_norm = None
    if max_norm is not None:
        raise Unsupported("an embedding with max_norm writes to its weights", "FX403")
    return ctx.op("Gather", weight, ctx.cast(input, torch.int64), axis=0, dtype=ctx.dtype(weight))


@module(nn.Embedding)
def embedding_module(ctx, m, input):
    if m.max_norm is not None:
        raise Unsupported("an embedding with max_norm writes to its weights", "FX403")
    weight = ctx.own(m, "weight")
    return ctx.op("Gather", weight, ctx.cast(input, torch.int64), axis=0, dtype=ctx.dtype(weight))


@op("one_hot", methods=False)
def one_hot(ctx, tensor, num_classes=-1):
    if num_classes < 0:
        raise Unsupported("the size of one_hot without num_classes depends on tensor values", "FX402")
    return ctx.op("OneHot", tensor, ctx.constant([num_classes]), ctx.constant([0, 1]), axis=-1)


@op("tril")
def tril(ctx, input, diagonal=0):
    return ctx.op("Trilu", input, ctx.constant(diagonal), upper=0)


@op("triu")
def triu(ctx, input, diagonal=0):
    return ctx.op("Trilu", input, ctx.constant(diagonal), upper=1)


@op("diagonal")
def diagonal(ctx, input, offset=0, dim1=0, dim2=1):
    if offset or ctx.rank(input) != 2:
        raise Unsupported("diagonal is supported for matrices without an offset only")
    n = ctx.static(min(ctx.sizes(input)), "the length of a diagonal")
    return ctx.op("GatherND", input, ctx.constant([[i, i] for i in range(n)]))
