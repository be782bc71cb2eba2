"""Shape rules of the operators that rearrange: views, indexing, joining, padding, repeating."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from fxlib.ir.leaves import as_sequence
from fxlib.shapes.table import FUNCTIONS, function, method, only_function, python
from fxlib.shapes.tensor_meta import TensorMeta

Meta = TensorMeta


def ints(values: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Sizes given one by one or as one sequence; None unless all are plain ints."""
    if len(values) == 1:
        values = tuple(as_sequence(values[0]))
    return values if all(type(v) is int for v in values) else None


def view_of(x: Meta, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Meta:
    return Meta(shape, x.dtype, x.device, strides)


def axis(dim: object, ndim: int) -> int | None:
    """The dimension as a non-negative index, or None."""
    return dim % ndim if type(dim) is int and -ndim <= dim < ndim else None


# Reshaping -----------------------------------------------------------------------------------------------------------


@method("view", "reshape")
def reshape_method(input: Meta, *shape: Any) -> Meta | None:
    sizes = ints(shape)
    if sizes is None or not input.contiguous:
        return None
    total = prod(input.shape)
    if -1 in sizes:
        rest = -prod(sizes)
        if sizes.count(-1) != 1 or rest <= 0 or total % rest:
            return None
        sizes = tuple(total // rest if s == -1 else s for s in sizes)
    return view_of(input, sizes) if prod(sizes) == total and min(sizes, default=1) >= 0 else None


FUNCTIONS[torch.reshape] = reshape_method


@method("view_as", "reshape_as")
def view_as(input: Meta, other: Meta) -> Meta | None:
    return reshape_method(input, tuple(other.shape))


@function("flatten")
def flatten(input: Meta, start_dim: int = 0, end_dim: int = -1) -> Meta | None:
    start, end = axis(start_dim, input.ndim), axis(end_dim, input.ndim)
    if start is None or end is None or start > end:
        return None
    if start == end:
        return input
    shape = input.shape
    if not input.contiguous:
        return _flatten_ones(input, start, end)
    return view_of(input, shape[:start] + (prod(shape[start : end + 1]),) + shape[end + 1 :])


def _flatten_ones(input: Meta, start: int, end: int) -> Meta | None:
    """Flattening dimensions of size 1 into the first one keeps that one's stride, as in ``[N, C, 1, 1] -> [N, C]``."""
    shape = input.shape
    if shape[start] == 1 or any(s != 1 for s in shape[start + 1 : end + 1]):
        return None
    return view_of(input, shape[: start + 1] + shape[end + 1 :], input.strides[: start + 1] + input.strides[end + 1 :])


@function("unflatten")
def unflatten(input: Meta, dim: int, sizes: Any) -> Meta | None:
    at, wanted = axis(dim, input.ndim), ints((sizes,))
    if at is None or wanted is None or not input.contiguous:
        return None
    if -1 in wanted:
        rest = -prod(wanted)
        if rest <= 0 or input.shape[at] % rest:
            return None
        wanted = tuple(input.shape[at] // rest if s == -1 else s for s in wanted)
    return (
        view_of(input, input.shape[:at] + wanted + input.shape[at + 1 :]) if prod(wanted) == input.shape[at] else None
    )


@function("squeeze")
def squeeze(input: Meta, dim: Any = None) -> Meta | None:
    if dim is None:
        gone = {i for i, s in enumerate(input.shape) if s == 1}
    else:
        dims = [axis(d, input.ndim) for d in as_sequence(dim)]
        if None in dims:
            return None
        gone = {d for d in dims if input.shape[d] == 1}  # type: ignore[index,misc]
    kept = [i for i in range(input.ndim) if i not in gone]
    return view_of(input, tuple(input.shape[i] for i in kept), tuple(input.strides[i] for i in kept))


@function("unsqueeze")
def unsqueeze(input: Meta, dim: int) -> Meta | None:
    at = axis(dim, input.ndim + 1)
    if at is None:
        return None
    stride = 1 if at == input.ndim else input.shape[at] * input.strides[at]
    return view_of(
        input, input.shape[:at] + (1,) + input.shape[at:], input.strides[:at] + (stride,) + input.strides[at:]
    )


def permuted(input: Meta, order: list[int]) -> Meta:
    return view_of(input, tuple(input.shape[i] for i in order), tuple(input.strides[i] for i in order))


@function("transpose", "swapaxes", "swapdims")
def transpose(input: Meta, dim0: int, dim1: int) -> Meta | None:
    a, b = axis(dim0, input.ndim), axis(dim1, input.ndim)
    if a is None or b is None:
        return None
    order = list(range(input.ndim))
    order[a], order[b] = b, a
    return permuted(input, order)


@only_function("permute")
def permute(input: Meta, dims: tuple[int, ...] | list[int]) -> Meta | None:
    order = [at for d in dims if (at := axis(d, input.ndim)) is not None]
    return permuted(input, order) if len(order) == len(dims) == len(set(order)) == input.ndim else None


@method("permute")
def permute_method(input: Meta, *dims: Any) -> Meta | None:
    sizes = ints(dims)
    return None if sizes is None else permute(input, sizes)


@function("movedim", "moveaxis")
def movedim(input: Meta, source: Any, destination: Any) -> Meta | None:
    src, dst = axis(source, input.ndim), axis(destination, input.ndim)
    if src is None or dst is None:
        return None
    order = [i for i in range(input.ndim) if i != src]
    order.insert(dst, src)
    return permuted(input, order)


@function("t")
def t(input: Meta) -> Meta | None:
    return input if input.ndim < 2 else transpose(input, 0, 1) if input.ndim == 2 else None


@method("expand")
def expand(input: Meta, *size: Any, implicit: bool = False) -> Meta | None:
    sizes = ints(size)
    if sizes is None or len(sizes) < input.ndim:
        return None
    shape, strides = list(sizes), [0] * len(sizes)
    lead = len(sizes) - input.ndim
    for i, (have, stride) in enumerate(zip(input.shape, input.strides, strict=False)):
        want = sizes[lead + i]
        if want == -1:
            want = have
        if want != have and have != 1:
            return None
        shape[lead + i], strides[lead + i] = want, stride if want == have else 0
    if min(shape, default=1) < 0:
        return None
    for i in range(lead - 1, -1, -1):
        strides[i] = 0 if shape[i] != 1 else strides[i + 1] * shape[i + 1] if i + 1 < len(shape) else 1
    return view_of(input, tuple(shape), tuple(strides))


@method("expand_as")
def expand_as(input: Meta, other: Meta) -> Meta | None:
    return expand(input, tuple(other.shape))


@only_function("broadcast_to")
@method("broadcast_to")
def broadcast_to(input: Meta, size: Any) -> Meta | None:
    return expand(input, size)


@method("contiguous")
def contiguous(input: Meta, memory_format: Any = torch.contiguous_format) -> Meta | None:
    if memory_format is torch.contiguous_format:
        return input if input.memory_format is torch.contiguous_format else view_of(input, input.shape)
    return None


# Taking parts --------------------------------------------------------------------------------------------------------


def part(input: Meta, at: int, size: int, step: int = 1) -> Meta:
    strides = input.strides if step == 1 else input.strides[:at] + (input.strides[at] * step,) + input.strides[at + 1 :]
    return view_of(input, input.shape[:at] + (size,) + input.shape[at + 1 :], strides)


@function("chunk")
def chunk(input: Meta, chunks: int, dim: int = 0) -> tuple[Meta, ...] | None:
    at = axis(dim, input.ndim)
    if at is None or type(chunks) is not int or chunks < 1 or not input.shape[at]:
        return None
    return split(input, -(-input.shape[at] // chunks), dim)


@function("split")
def split(
    input: Meta, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Meta, ...] | None:
    at = axis(dim, input.ndim)
    sizes = split_size_or_sections if split_size_or_sections is not None else split_size
    if at is None:
        return None
    length = input.shape[at]
    if type(sizes) is int:
        if sizes <= 0:
            return None
        sizes = [min(sizes, length - start) for start in range(0, max(length, 1), sizes)]
    elif (
        not isinstance(sizes, (tuple, list))
        or ints((sizes,)) is None
        or sum(sizes) != length
        or min(sizes, default=0) < 0
    ):
        return None
    return tuple(part(input, at, size) for size in sizes)


@function("unbind")
def unbind(input: Meta, dim: int = 0) -> tuple[Meta, ...] | None:
    at = axis(dim, input.ndim)
    if at is None:
        return None
    row = view_of(input, input.shape[:at] + input.shape[at + 1 :], input.strides[:at] + input.strides[at + 1 :])
    return (row,) * input.shape[at]


@function("narrow")
def narrow(input: Meta, dim: int, start: Any, length: int) -> Meta | None:
    at = axis(dim, input.ndim)
    if at is None or type(start) is not int or type(length) is not int:
        return None
    start = start + input.shape[at] if start < 0 else start
    return part(input, at, length) if start >= 0 and length >= 0 and start + length <= input.shape[at] else None


@function("select")
def select(input: Meta, dim: int, index: int) -> Meta | None:
    at = axis(dim, input.ndim)
    if at is None or axis(index, input.shape[at]) is None:
        return None
    return view_of(input, input.shape[:at] + input.shape[at + 1 :], input.strides[:at] + input.strides[at + 1 :])


@python("getitem")
def getitem(input: Any, index: Any) -> Any:
    """Indexing by ints, slices, ``...`` and None; indexing by tensors is left to the kernels."""
    if not isinstance(input, Meta):
        return None
    items = index if type(index) is tuple else (index,)
    used = 0
    for i in items:
        kind = type(i)
        if kind is int or kind is slice:
            used += 1
        elif i is not None and i is not Ellipsis:
            return None
    if used > input.ndim or items.count(Ellipsis) > 1:
        return None
    shape: list[int] = []
    strides: list[int] = []
    at = 0
    for i in items:
        if i is Ellipsis:
            step = input.ndim - used
            shape += input.shape[at : at + step]
            strides += input.strides[at : at + step]
            at += step
        elif i is None:
            stride = input.shape[at] * input.strides[at] if at < input.ndim else 1
            shape.append(1)
            strides.append(stride)
        elif type(i) is int:
            if not -input.shape[at] <= i < input.shape[at]:
                return None
            at += 1
        else:
            if not all(v is None or type(v) is int for v in (i.start, i.stop, i.step)) or (i.step or 1) < 1:
                return None
            start, stop, step = i.indices(input.shape[at])
            shape.append(max(0, -(-(stop - start) // step)))
            strides.append(input.strides[at] * step)
            at += 1
    shape += input.shape[at:]
    strides += input.strides[at:]
    return view_of(input, tuple(shape), tuple(strides))


@function("index_select")
def index_select(input: Meta, dim: int, index: Meta) -> Meta | None:
    at = axis(dim, input.ndim)
    if at is None or index.ndim != 1 or not input.contiguous:
        return None
    return view_of(input, input.shape[:at] + (index.shape[0],) + input.shape[at + 1 :])


@function("gather")
def gather(input: Meta, dim: int, index: Meta, *, sparse_grad: bool = False) -> Meta | None:
    return view_of(input, index.shape) if input.ndim == index.ndim and index.contiguous else None
