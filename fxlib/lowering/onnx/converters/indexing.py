"""Selection: slices, integer and tensor indices, gather, diagonals, memory by strides."""

from __future__ import annotations

import operator

import numpy as np
import onnx_ir as ir
import torch
import torch.utils._pytree as pytree

from fxlib.lowering.onnx.context import INT64_MAX
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import op, refused

MASKS = (torch.bool, torch.uint8)
"""The dtypes of an index that says for each element whether it is taken."""


def _one(ctx, value, axis, index):
    if isinstance(index, int):
        return ctx.op("Gather", value, ctx.constant(index), axis=axis)
    return ctx.op("Gather", value, ctx.number(index), axis=axis)


@op("__getitem__", functions=(operator.getitem,))
def getitem(ctx, input, index):
    if isinstance(input, (tuple, list)):
        return input[index]
    if isinstance(index, list) and not all(isinstance(item, (bool, int)) for item in index):
        index = tuple(index)  # torch takes a list of lists, slices or tensors for a tuple
    return _basic_then_advanced(ctx, input, index if isinstance(index, tuple) else (index,))


@op(functions=(getattr,))
def attribute(ctx, input, name, *default):
    if isinstance(input, tuple):
        return getattr(input, name, *default)  # a result by its name, as in x.max(1).values
    if name in ("T", "mT", "H", "mH") and (rank := ctx.rank(input)) >= 2:
        last = [*range(rank - 2), rank - 1, rank - 2]
        return ctx.op("Transpose", input, perm=[*range(rank)][::-1] if name == "T" else last)
    raise Unsupported(f"there is no converter for the attribute {name!r} of a tensor")


def _without_lists(ctx, index):
    """An index with its lists as constants: of positions, one for each dimension of a list of bools."""
    for item in index:
        if not isinstance(item, (list, tuple)):
            yield item
            continue
        if not all(isinstance(leaf, (bool, int)) for leaf in pytree.tree_leaves(item)):
            raise Unsupported("an index that is a list of other things than numbers is not supported")
        array = np.asarray(item)
        for each in np.nonzero(array) if array.dtype == np.bool_ else [array.astype(np.int64)]:
            yield ctx.bind(ctx.constant(each), torch.empty(each.shape, dtype=torch.int64))


def _basic_then_advanced(ctx, value, index):
    """As in torch: slices, integers and None first; tensors are the index of what these give."""
    index = [*_without_lists(ctx, index)]
    rank = ctx.rank(value)
    for item in index:
        if isinstance(item, ir.Value) and ctx.dtype(item) in MASKS:
            raise Unsupported("the size of the result of mask indexing depends on tensor values", "FX402")
    taken = sum(item is not None and item is not Ellipsis for item in index)
    if not any(item is Ellipsis for item in index):
        index.append(Ellipsis)
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
        elif isinstance(item, (int, torch.SymInt)) or (isinstance(item, ir.Value) and ctx.rank(item) == 0):
            singles.append((axis, item))
            axis += 1
        elif isinstance(item, ir.Value):
            tensors.append((out, item))
            axis += 1
            out += 1
        else:
            raise Unsupported(f"an index of type {type(item).__name__} is not supported")
    if axes:
        value = ctx.op("Slice", value, ctx.shape(starts), ctx.shape(stops), ctx.constant(axes), ctx.constant(steps))
    for place, item in reversed(singles):
        value = _one(ctx, value, place, item)
    if new_axes:
        value = ctx.op("Unsqueeze", value, ctx.constant(new_axes))
    return _advanced(ctx, value, out, tensors) if tensors else value


def _advanced(ctx, value, rank, tensors):
    if len(tensors) == 1:
        axis, item = tensors[0]
        return ctx.op("Gather", value, ctx.cast(item, torch.int64), axis=axis)
    places = [axis for axis, _ in tensors]
    shape = torch.broadcast_shapes(*(tuple(ctx.sizes(item)) for _, item in tensors))
    joined = joined_indices(ctx, [item for _, item in tensors], shape)
    # GatherND indexes leading dimensions: move the indexed ones to the front, and the results back to where the first
    # of them was, unless others are between them.
    lead, before = len(shape), places[0] if places[-1] - places[0] == len(places) - 1 else 0
    if places[-1] == len(places) - 1:
        return ctx.op("GatherND", value, joined)
    front = places + [d for d in range(rank) if d not in places]
    found = ctx.op("GatherND", ctx.op("Transpose", value, perm=front), joined)
    if not before:
        return found
    back = [*range(lead, lead + before), *range(lead), *range(lead + before, lead + rank - len(places))]
    return ctx.op("Transpose", found, perm=back)


def joined_indices(ctx, items, shape):
    """Several tensor indices as one tensor whose last dimension holds one index for each indexed dimension."""
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
    index = ctx.cast(index, torch.int64)
    if not ctx.rank(input) or not ctx.rank(index):
        raise Unsupported("gather is not supported for tensors without dimensions")
    # OpenVINO wants as many rows as there are indices, and leaves out a Slice that makes them so.
    dim %= ctx.rank(input)
    rows = input
    for axis, (size, want) in enumerate(zip(ctx.sizes(input), ctx.sizes(index), strict=True)):
        if axis != dim and size != want:
            first = ctx.op("Range", ctx.constant(0), ctx.number(want), ctx.constant(1))
            rows = ctx.op("Gather", rows, first, axis=axis)
    return ctx.op("GatherElements", rows, index, axis=dim)


@op("take_along_dim")
def take_along_dim(ctx, input, indices, dim=None):
    if dim is None:
        flat = (ctx.op("Reshape", each, ctx.constant([-1])) for each in (input, ctx.cast(indices, torch.int64)))
        return ctx.op("GatherElements", *flat, axis=0)
    dim %= ctx.rank(input)
    sizes, wanted = list(ctx.sizes(input)), list(ctx.fake.shape)
    spread = [*wanted[:dim], sizes[dim], *wanted[dim + 1 :]]
    if sizes != spread:
        input = ctx.op("Expand", input, ctx.shape(spread))
    if list(ctx.sizes(indices)) != wanted:
        indices = ctx.op("Expand", indices, ctx.shape(wanted))
    return ctx.op("GatherElements", input, ctx.cast(indices, torch.int64), axis=dim)


@op("as_strided")
def as_strided(ctx, input, size, stride, storage_offset=None):
    fake = ctx.example(input)
    sizes = [ctx.static(each, "the memory that as_strided looks at") for each in (*fake.shape, *size)]
    held = sizes[: fake.dim()]
    extent = 1 + sum((n - 1) * step for n, step in zip(held, fake.stride(), strict=True))
    start = fake.storage_offset()
    # The memory position of each input element, and the positions that each result element reads.
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


@op(functions=(torch.linalg.diagonal,))
def matrix_diagonal(ctx, A, *, offset=0, dim1=-2, dim2=-1):
    return diagonal(ctx, A, offset, dim1, dim2)


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
