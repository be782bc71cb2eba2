"""Selection: slices, integer and tensor indices, gather, scatter, embedding, masks."""

from __future__ import annotations

import operator

import numpy as np
import onnx_ir as ir
import torch
import torch.nn as nn

from fxlib.lowering.onnx.context import INT64_MAX
from fxlib.lowering.onnx.converters.elementwise import floor_divide
from fxlib.lowering.onnx.dtypes import Unsupported, limits
from fxlib.lowering.onnx.registry import aten, module, op, refused


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
    joined = _joined(ctx, [item for _, item in tensors], shape)
    if places[0] == 0:
        return ctx.op("GatherND", value, joined)
    # GatherND indexes leading dimensions: bring the indexed ones to the front and the results back.
    front = places + [d for d in range(rank) if d not in places]
    found = ctx.op("GatherND", ctx.op("Transpose", value, perm=front), joined)
    lead, before = len(shape), places[0]
    total = lead + rank - len(places)
    back = [*range(lead, lead + before), *range(lead), *range(lead + before, total)]
    return ctx.op("Transpose", found, perm=back)


def _joined(ctx, items, shape):
    """Tensor indices as one: the last dimension has an index for each of the dimensions that they are for."""
    axis = ctx.constant([len(shape)])
    spread = (ctx.op("Expand", ctx.cast(item, torch.int64), ctx.shape(shape)) for item in items)
    return ctx.op("Concat", *(ctx.op("Unsqueeze", item, axis) for item in spread), axis=-1)


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


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@op("scatter_reduce")
def scatter_reduce(ctx, input, dim, index, src, reduce, *, include_self=True):
    kind, sizes, index = ctx.dtype(input), ctx.sizes(input), ctx.cast(index, torch.int64)
    into = lambda base, given, how: ctx.op("ScatterElements", base, index, given, axis=dim, reduction=how)  # noqa: E731
    taken = ctx.sizes(index)
    same = lambda number: ctx.op("Expand", ctx.constant(number, kind), ctx.shape(taken))  # noqa: E731
    if not include_self:
        # What is written to begins with what changes nothing.
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
    if len(given) == 1 and ctx.dtype(given[0]) == torch.bool:
        return _masked_put(ctx, input, indices.index(given[0]), given[0], values, accumulate)
    if any(ctx.dtype(item) == torch.bool for item in given):
        raise Unsupported("index_put with a mask among other indices is not supported", "FX402")
    rank, places = ctx.rank(input), [place for place, item in enumerate(indices) if item is not None]
    lead = torch.broadcast_shapes(*(tuple(ctx.sizes(item)) for item in given))
    rest = [axis for axis in range(rank) if axis not in places]
    if places != list(range(places[0], places[0] + len(places))) and places[0] != 0:
        raise Unsupported("index_put with a slice between tensor indices is not supported")
    joined = _joined(ctx, given, lead)
    # The indexed dimensions come first, as ScatterND wants them; the values have them where the first of them stands.
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
    """Write where a mask is true; only one value, or one for each row, since the number of places is not known."""
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
    # The n-th true place takes the n-th value.
    count = ctx.op("CumSum", flat(ctx.cast(mask, torch.int64)), ctx.constant(0))
    turn = ctx.op("Max", ctx.op("Sub", count, ctx.constant(1)), ctx.constant(0))
    taken = ctx.op("Gather", flat(source), turn, axis=0)
    kind = ctx.dtype(input)
    return ctx.op("Where", mask, ctx.reshape(taken, ctx.sizes(input)), input, dtype=kind)


@op("as_strided")
def as_strided(ctx, input, size, stride, storage_offset=None):
    fake = ctx.example(input)
    sizes = [ctx.static(each, "the memory that as_strided looks at") for each in (*fake.shape, *size)]
    held = sizes[: fake.dim()]
    extent = 1 + sum((n - 1) * step for n, step in zip(held, fake.stride(), strict=True))
    start = fake.storage_offset()
    # Where in memory each element of the input lies, and which of them the result has at each place.
    places = np.full(max(extent, 1), -1, dtype=np.int64)
    places[(_offsets(held, fake.stride())).ravel()] = np.arange(int(np.prod(held)))
    wanted = _offsets(sizes[fake.dim() :], stride) + (start if storage_offset is None else storage_offset) - start
    if wanted.size and (wanted.min() < 0 or wanted.max() >= len(places) or (places[wanted] < 0).any()):
        raise Unsupported("as_strided reads memory that is not its input's")
    return ctx.op("Gather", ctx.op("Reshape", input, ctx.constant([-1])), ctx.constant(places[wanted]), axis=0)


def _offsets(sizes, strides):
    """The distance of each element from the first, in elements."""
    total = np.zeros(tuple(sizes), dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        total += (np.arange(size) * stride).reshape([-1 if d == axis else 1 for d in range(len(sizes))])
    return total


@op("embedding_bag", methods=False)
def embedding_bag(
    ctx, input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    if max_norm is not None:
        raise Unsupported("an embedding with max_norm writes to its weights", "FX403")
    if padding_idx is not None or mode == "max":
        raise Unsupported("embedding_bag is supported for sums and means, without padding_idx")
    kind, width = ctx.dtype(weight), ctx.sizes(weight)[1]
    rows = ctx.op("Gather", weight, ctx.cast(input, torch.int64), axis=0, dtype=kind)
    if per_sample_weights is not None:
        rows = ctx.op("Mul", rows, ctx.op("Unsqueeze", per_sample_weights, ctx.constant([-1])))
    if ctx.rank(input) == 2:
        return ctx.op("ReduceSum" if mode == "sum" else "ReduceMean", rows, ctx.constant([1]), keepdims=0)
    bags, count = ctx.sizes(offsets)[0] - int(include_last_offset), ctx.sizes(input)[0]
    place = ctx.op("Range", ctx.constant(0), ctx.number(count), ctx.constant(1))
    first = ctx.slice(ctx.cast(offsets, torch.int64), 0, 0, bags)
    begun = ctx.op("GreaterOrEqual", ctx.op("Unsqueeze", place, ctx.constant([1])), first, dtype=torch.bool)
    owner = ctx.op("Sub", ctx.op("ReduceSum", ctx.cast(begun, torch.int64), ctx.constant([1])), ctx.constant(1))
    empty = ctx.op("Expand", ctx.constant(0, kind), ctx.shape([bags, width]))
    total = ctx.op("ScatterND", empty, owner, rows, reduction="add")
    if mode == "sum":
        return total
    one = ctx.op("Expand", ctx.constant(1, kind), ctx.shape([count, 1]))
    none = ctx.op("Expand", ctx.constant(0, kind), ctx.shape([bags, 1]))
    size = ctx.op("ScatterND", none, owner, one, reduction="add")
    return ctx.op("Div", total, ctx.op("Max", size, ctx.constant(1, kind)))


@aten("_embedding_bag", "_embedding_bag_forward_only")
def aten_embedding_bag(
    ctx, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=-1,
):  # fmt: skip
    padding = None if padding_idx < 0 else padding_idx
    more = (per_sample_weights, include_last_offset, padding)
    return (
        embedding_bag(ctx, indices, weight, offsets, None, 2.0, False, ("sum", "mean", "max")[mode], False, *more),
        None,
        None,
        None,
    )


@module(nn.EmbeddingBag)
def embedding_bag_module(ctx, m, input, offsets=None, per_sample_weights=None):
    return embedding_bag(
        ctx, input, ctx.own(m, "weight"), offsets, m.max_norm, mode=m.mode, per_sample_weights=per_sample_weights,
        include_last_offset=m.include_last_offset, padding_idx=m.padding_idx,
    )  # fmt: skip


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
    positions = ctx.constant(list(range(size)))
    hit = ctx.op(
        "Equal", ctx.op("Unsqueeze", positions, ctx.constant([1])), ctx.cast(index, torch.int64), dtype=torch.bool
    )
    mask = ctx.cast(ctx.op("ReduceMax", ctx.cast(hit, torch.int32), ctx.constant([1]), keepdims=0), torch.bool)
    mask = ctx.reshape(mask, [size if d == dim % rank else 1 for d in range(rank)])
    return ctx.op("Where", mask, ctx.cast(value, ctx.dtype(input)), input, dtype=ctx.dtype(input))


@op("embedding", methods=False)
def embedding(ctx, input, weight, padding_idx=None, max_norm=None, *rest, **kwargs):
    if max_norm is not None:
        raise Unsupported("an embedding with max_norm writes to its weights", "FX403")
    return ctx.op("Gather", weight, ctx.cast(input, torch.int64), axis=0, dtype=ctx.dtype(weight))


@aten("embedding")
def aten_embedding(ctx, weight, indices, *rest, **kwargs):
    return embedding(ctx, indices, weight)


@module(nn.Embedding)
def embedding_module(ctx, m, input):
    if m.max_norm is not None:
        raise Unsupported("an embedding with max_norm writes to its weights", "FX403")
    weight = ctx.own(m, "weight")
    return ctx.op("Gather", weight, ctx.cast(input, torch.int64), axis=0, dtype=ctx.dtype(weight))


refused(
    "the size of its result depends on tensor values", "FX402", "nonzero", "masked_select", "unique", "_unique2",
    "unique_consecutive",
)  # fmt: skip


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
    rank, sizes = ctx.rank(input), ctx.sizes(input)
    dim1, dim2 = dim1 % rank, dim2 % rank
    rows, columns = (ctx.static(sizes[dim], "the size of a diagonal") for dim in (dim1, dim2))
    at = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0)))) + max(0, -offset)
    rest = [axis for axis in range(rank) if axis not in (dim1, dim2)]
    moved = ctx.op("Transpose", input, perm=[*rest, dim1, dim2])
    flat = ctx.reshape(moved, [*(sizes[axis] for axis in rest), rows * columns])
    return ctx.op("Gather", flat, ctx.constant(at * columns + at + offset), axis=len(rest))
