"""Sums, means, extrema, norms, cumulative sums, sorting."""

from __future__ import annotations

import torch

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


def _reduce(ctx, kind, input, dim, keepdim):
    axes = None if dim is None else ctx.constant(ctx.axes(dim, ctx.rank(input)))
    if ctx.rank(input) == 0:
        return input
    return ctx.op(kind, input, axes, keepdims=int(keepdim))


def _number(ctx, input, dtype):
    kind = dtype or ctx.fake.dtype
    return ctx.cast(input, kind)


@op("sum", "nansum")
def sum_(ctx, input, *args, dim=None, keepdim=False, dtype=None):
    dim, keepdim = _dims(ctx, args, dim, keepdim)
    return _reduce(ctx, "ReduceSum", _number(ctx, input, dtype), dim, keepdim)


@op("mean")
def mean(ctx, input, *args, dim=None, keepdim=False, dtype=None):
    dim, keepdim = _dims(ctx, args, dim, keepdim)
    return _reduce(ctx, "ReduceMean", _number(ctx, input, dtype), dim, keepdim)


@op("prod")
def prod(ctx, input, *args, dim=None, keepdim=False, dtype=None):
    dim, keepdim = _dims(ctx, args, dim, keepdim)
    return _reduce(ctx, "ReduceProd", _number(ctx, input, dtype), dim, keepdim)


@op("amax")
def amax(ctx, input, *args, dim=None, keepdim=False):
    return _reduce(ctx, "ReduceMax", input, *_dims(ctx, args, dim, keepdim))


@op("amin")
def amin(ctx, input, *args, dim=None, keepdim=False):
    return _reduce(ctx, "ReduceMin", input, *_dims(ctx, args, dim, keepdim))


@op("logsumexp")
def logsumexp(ctx, input, *args, dim=None, keepdim=False):
    return _reduce(ctx, "ReduceLogSumExp", input, *_dims(ctx, args, dim, keepdim))


def _extremum(kind: str, pairwise: str):
    def convert(ctx, input, *args, dim=None, keepdim=False, other=None):
        if args and hasattr(args[0], "const_value"):
            other, args = args[0], args[1:]
        if other is not None:
            return ctx.op(pairwise, *ctx.promoted(input, other))
        dim, keepdim = _dims(ctx, args, dim, keepdim)
        if dim is None:
            return _reduce(ctx, f"Reduce{kind}", input, None, False)
        # One index output serves both results, so that ties agree.
        index = ctx.op(f"Arg{kind}", input, axis=dim, keepdims=1, dtype=torch.int64)
        value = ctx.op("GatherElements", input, index, axis=dim)
        if not keepdim:
            axis = ctx.constant([dim % ctx.rank(input)])
            value, index = ctx.op("Squeeze", value, axis), ctx.op("Squeeze", index, axis)
        return value, index

    return convert


op("max")(_extremum("Max", "Max"))
op("min")(_extremum("Min", "Min"))


def _arg(kind: str):
    def convert(ctx, input, dim=None, keepdim=False):
        if dim is None:
            flat = ctx.op("Reshape", input, ctx.constant([-1]))
            return ctx.op(kind, flat, axis=0, keepdims=0, dtype=torch.int64)
        return ctx.op(kind, input, axis=dim, keepdims=int(keepdim), dtype=torch.int64)

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
    squares = ctx.op("Mul", centred, centred)
    if correction == 0:
        return ctx.op("ReduceMean", squares, where, keepdims=int(keepdim))
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


@op("norm", "linalg_vector_norm", "vector_norm")
def norm(ctx, input, p=2, dim=None, keepdim=False, ord=None, dtype=None, **_):
    p = 2 if p in ("fro", None) else p
    p = p if ord is None else ord
    kind = {1: "ReduceL1", 2: "ReduceL2", float("inf"): "ReduceMax"}.get(p)
    if kind is None:
        raise Unsupported(f"norm with p={p}")
    return _reduce(ctx, kind, ctx.op("Abs", input) if kind == "ReduceMax" else input, dim, keepdim)


@op("any")
def any_(ctx, input, dim=None, keepdim=False):
    return ctx.cast(
        _reduce(ctx, "ReduceMax", ctx.cast(ctx.cast(input, torch.bool), torch.int32), dim, keepdim), torch.bool
    )


@op("all")
def all_(ctx, input, dim=None, keepdim=False):
    return ctx.cast(
        _reduce(ctx, "ReduceMin", ctx.cast(ctx.cast(input, torch.bool), torch.int32), dim, keepdim), torch.bool
    )


@op("cumsum")
def cumsum(ctx, input, dim, *, dtype=None):
    return ctx.op("CumSum", ctx.cast(input, ctx.fake.dtype), ctx.constant(dim % max(ctx.rank(input), 1)))


@op("topk")
def topk(ctx, input, k, dim=-1, largest=True, sorted=True):
    return ctx.op(
        "TopK",
        input,
        ctx.shape([k]),
        axis=dim,
        largest=int(largest),
        sorted=int(sorted),
        outputs=2,
        dtype=(ctx.dtype(input), torch.int64),
    )


@op("sort")
def sort(ctx, input, dim=-1, descending=False, stable=False):
    size = ctx.sizes(input)[dim]
    return ctx.op(
        "TopK",
        input,
        ctx.shape([size]),
        axis=dim,
        largest=int(descending),
        sorted=1,
        outputs=2,
        dtype=(ctx.dtype(input), torch.int64),
    )


@op("argsort")
def argsort(ctx, input, dim=-1, descending=False, stable=False):
    return sort(ctx, input, dim, descending)[1]
