"""Sums, means, extrema, norms, cumulative sums, sorting."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import torch

from fxlib.lowering.onnx.arguments import listed
from fxlib.lowering.onnx.context import STABLE
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import op


def _dims(ctx, args, dim, keepdim):
    # Both f(x, dim, keepdim) and f(x, d0, d1) (permitted for methods of some reductions) arrive here.
    if args:
        dim = args[0]
        if len(args) > 1:
            keepdim = args[1]
    if dim == [] or dim == ():
        dim = None
    return dim, bool(keepdim)


def _reduce(ctx, kind, input, dim, keepdim, rank=None):
    rank = ctx.rank(input) if rank is None else rank
    axes = None if dim is None else ctx.constant(ctx.axes(dim, rank))
    if rank == 0:
        return ctx.op("Abs", input) if kind in ("ReduceL1", "ReduceL2") else input
    if kind == "ReduceMean":
        sizes = [ctx.sizes(input)[each] for each in (range(rank) if dim is None else ctx.axes(dim, rank))]
        if not all(isinstance(each, int) and each for each in sizes):
            # Nothing has no mean; ONNX Runtime's is 0.
            total, count = _reduce(ctx, "ReduceSum", input, dim, keepdim, rank), reduce(operator.mul, sizes, 1)
            return ctx.op("Div", total, ctx.cast(ctx.number(count), ctx.dtype(input)))
    return ctx.op(kind, input, axes, keepdims=int(keepdim))


def _register(name: str, kind: str, casts: bool) -> None:
    @op(name)
    def convert(ctx, input, *args, dim=None, keepdim=False, dtype=None):
        value = ctx.cast(input, dtype or ctx.fake.dtype) if casts else input
        return _reduce(ctx, kind, value, *_dims(ctx, args, dim, keepdim))


for _name, _kind, _casts in (
    ("sum", "ReduceSum", True),
    ("mean", "ReduceMean", True),
    ("prod", "ReduceProd", True),
    ("amax", "ReduceMax", False),
    ("amin", "ReduceMin", False),
    ("logsumexp", "ReduceLogSumExp", True),
):
    _register(_name, _kind, _casts)


@op("nansum")
def nansum(ctx, input, *args, dim=None, keepdim=False, dtype=None):
    value = ctx.cast(input, dtype or ctx.fake.dtype)
    if ctx.dtype(value).is_floating_point:
        there = ctx.op("Not", ctx.op("IsNaN", value, dtype=torch.bool))
        value = ctx.op("Where", there, value, ctx.constant(0, ctx.dtype(value)), dtype=ctx.dtype(value))
    dim, keepdim = _dims(ctx, args, dim, keepdim)
    return _reduce(ctx, "ReduceSum", value, dim, keepdim, ctx.rank(input))


def _extremum(kind: str, pairwise: str):
    def convert(ctx, input, *args, dim=None, keepdim=False, other=None):
        if args and hasattr(args[0], "const_value"):
            other, args = args[0], args[1:]
        if other is not None:
            return ctx.op(pairwise, *ctx.promoted(input, other))
        dim, keepdim = _dims(ctx, args, dim, keepdim)
        if dim is None:
            return _reduce(ctx, f"Reduce{kind}", input, None, False)

        def along(line):
            # One index output serves both results, so that ties agree.
            index = ctx.op(f"Arg{kind}", line, axis=dim, keepdims=1, dtype=torch.int64)
            value = ctx.op("GatherElements", line, index, axis=dim)
            if keepdim or not ctx.rank(input):
                return value, index
            axis = ctx.constant([dim % ctx.rank(input)])
            return ctx.op("Squeeze", value, axis), ctx.op("Squeeze", index, axis)

        return ctx.lined(input, along)

    return convert


op("max")(_extremum("Max", "Max"))
op("min")(_extremum("Min", "Min"))


def _arg(kind: str):
    def convert(ctx, input, dim=None, keepdim=False):
        if dim is None:
            flat = ctx.op("Reshape", input, ctx.constant([-1]))
            return ctx.op(kind, flat, axis=0, keepdims=0, dtype=torch.int64)
        keepdims = int(keepdim or not ctx.rank(input))
        return ctx.lined(input, lambda line: ctx.op(kind, line, axis=dim, keepdims=keepdims, dtype=torch.int64))

    return convert


op("argmax")(_arg("ArgMax"))
op("argmin")(_arg("ArgMin"))


def _variance(ctx, input, args, dim, unbiased, correction, keepdim):
    args = list(args)
    if args and isinstance(args[0], bool):
        unbiased = args.pop(0)
    elif args:
        dim = args.pop(0)
        if args:
            unbiased = args.pop(0)
        if args:
            keepdim = args.pop(0)
    correction = (1 if unbiased else 0) if correction is None else correction
    rank = ctx.rank(input)
    axes = list(range(rank)) if dim in (None, [], ()) else ctx.axes(dim, rank)
    where = ctx.constant(axes)
    centred = ctx.op("Sub", input, ctx.op("ReduceMean", input, where, keepdims=1))
    squares = ctx.bind(ctx.op("Mul", centred, centred), ctx.example(input))
    if correction == 0:
        return _reduce(ctx, "ReduceMean", squares, axes, keepdim)
    count = 1
    for axis in axes:
        count *= ctx.static(ctx.sizes(input)[axis], "the number of elements of an unbiased variance")
    total = ctx.op("ReduceSum", squares, where, keepdims=int(keepdim))
    return ctx.op("Div", total, ctx.constant(max(count - correction, 0), ctx.dtype(input)))


@op("var")
def var(ctx, input, *args, dim=None, unbiased=True, correction=None, keepdim=False):
    return _variance(ctx, input, args, dim, unbiased, correction, keepdim)


@op("std")
def std(ctx, input, *args, dim=None, unbiased=True, correction=None, keepdim=False):
    return ctx.op("Sqrt", _variance(ctx, input, args, dim, unbiased, correction, keepdim))


@op("var_mean")
def var_mean(ctx, input, *args, dim=None, unbiased=True, correction=None, keepdim=False):
    axes = dim if dim is not None else (args[0] if args and not isinstance(args[0], bool) else None)
    spread = _variance(ctx, input, args, dim, unbiased, correction, keepdim)
    return spread, _reduce(ctx, "ReduceMean", input, axes, keepdim)


@op("linalg_vector_norm", functions=(torch.linalg.vector_norm,))
def vector_norm(ctx, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    return norm(ctx, x, ord, dim, keepdim)


@op("linalg_norm", functions=(torch.linalg.norm,))
def linalg_norm(ctx, A, ord=None, dim=None, keepdim=False, *, dtype=None):
    count = ctx.rank(A) if dim is None else len(listed(dim))
    if ord not in (None, "fro") and count != 1:
        raise Unsupported(f"the norm of a matrix with ord={ord} is not supported")
    return norm(ctx, A, ord, dim, keepdim)


@op("norm")
def norm(ctx, input, p=2, dim=None, keepdim=False, out=None, dtype=None):
    p = 2 if p in ("fro", None) else p
    rank, input = ctx.rank(input), ctx.cast(input, ctx.fake.dtype)
    kind = {1: "ReduceL1", 2: "ReduceL2", float("inf"): "ReduceMax"}.get(p)
    if kind is None:
        raise Unsupported(f"a norm with p={p} is not supported")
    return _reduce(ctx, kind, ctx.op("Abs", input) if kind == "ReduceMax" else input, dim, keepdim, rank)


def _distance(ctx, difference, p):
    """The norm of the last dimension."""
    last = ctx.constant([-1])
    if p in (1, 2):
        return ctx.op(f"ReduceL{int(p)}", difference, last, keepdims=0)
    size = ctx.op("Abs", difference)
    if p == float("inf"):
        return ctx.op("ReduceMax", size, last, keepdims=0)
    kind = ctx.dtype(difference)
    if p == 0:
        differs = ctx.op("Greater", size, ctx.constant(0, kind), dtype=torch.bool)
        return ctx.op("ReduceSum", ctx.cast(differs, kind), last, keepdims=0)
    total = ctx.op("ReduceSum", ctx.op("Pow", size, ctx.constant(p, kind)), last, keepdims=0)
    return ctx.op("Pow", total, ctx.constant(1 / p, kind))


@op("cdist", "_cdist_forward")
def cdist(ctx, x1, x2, p=2.0, compute_mode=None):
    for each in (x1, x2):
        ctx.filled(each, "cdist")
    rows, columns = ctx.op("Unsqueeze", x1, ctx.constant([-2])), ctx.op("Unsqueeze", x2, ctx.constant([-3]))
    return _distance(ctx, ctx.op("Sub", rows, columns), p)


@op("pdist", "_pdist_forward")
def pdist(ctx, input, p=2.0):
    count = ctx.static(ctx.sizes(input)[0], "the number of points that pdist compares")
    rows, columns = np.triu_indices(count, 1)
    points = (ctx.op("Gather", input, ctx.constant(each), axis=0) for each in (rows, columns))
    return _distance(ctx, ctx.op("Sub", *points), p)


def _over_bits(name: str, kind: str):
    def convert(ctx, input, dim=None, keepdim=False):
        ctx.filled(input, name)  # the largest and smallest of no numbers are not those of no bits
        bits = ctx.cast(ctx.cast(input, torch.bool), torch.int32)
        return ctx.cast(_reduce(ctx, kind, bits, dim, keepdim), torch.bool)

    return convert


op("any")(_over_bits("any", "ReduceMax"))
op("all")(_over_bits("all", "ReduceMin"))


@op("cumsum")
def cumsum(ctx, input, dim, *, dtype=None):
    axis = ctx.constant(dim % max(ctx.rank(input), 1))
    value = ctx.cast(input, ctx.fake.dtype)
    return ctx.lined(value, lambda line: ctx.op("CumSum", line, axis), ctx.rank(input))


@op("topk")
def topk(ctx, input, k, dim=-1, largest=True, sorted=True):
    kinds = (ctx.dtype(input), torch.int64)
    order = {"largest": int(largest), "sorted": int(sorted)}
    return ctx.lined(
        input, lambda line: ctx.op("TopK", line, ctx.shape([k]), axis=dim, outputs=2, dtype=kinds, **order)
    )


@op("sort")
def sort(ctx, input, dim=-1, descending=False, stable=False):
    size = ctx.sizes(input)[dim] if ctx.rank(input) else 1
    results = topk(ctx, input, size, dim, largest=descending)
    if stable:
        ctx.nodes[-1].metadata_props[STABLE] = "1"
    return results


@op("argsort")
def argsort(ctx, input, dim=-1, descending=False, stable=False):
    return sort(ctx, input, dim, descending, stable)[1]
