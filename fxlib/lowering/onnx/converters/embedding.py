"""Embeddings: rows of a table, singly or in bags."""

from __future__ import annotations

import torch
import torch.nn as nn

from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import aten, module, op


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
    if include_last_offset:  # what is behind the last offset is in no bag
        last = ctx.slice(ctx.cast(offsets, torch.int64), 0, bags, bags + 1)
        there = ctx.op("Less", place, last, dtype=torch.bool)
        there = ctx.cast(ctx.op("Unsqueeze", there, ctx.constant([1])), kind)
        rows = ctx.op("Mul", rows, there)
    begun = ctx.op("GreaterOrEqual", ctx.op("Unsqueeze", place, ctx.constant([1])), first, dtype=torch.bool)
    owner = ctx.op("Sub", ctx.op("ReduceSum", ctx.cast(begun, torch.int64), ctx.constant([1])), ctx.constant(1))
    empty = ctx.op("Expand", ctx.constant(0, kind), ctx.shape([bags, width]))
    total = ctx.op("ScatterND", empty, owner, rows, reduction="add")
    if mode == "sum":
        return total
    one = ctx.op("Expand", ctx.constant(1, kind), ctx.shape([count, 1]))  # torch counts what is in no bag for the last
    none = ctx.op("Expand", ctx.constant(0, kind), ctx.shape([bags, 1]))
    size = ctx.op("ScatterND", none, owner, one, reduction="add")
    return ctx.op("Div", total, ctx.op("Max", size, ctx.constant(1, kind)))


@aten("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def aten_embedding_bag(
    ctx, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=-1,
):  # fmt: skip
    padding = None if padding_idx is None or padding_idx < 0 else padding_idx
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
    return embedding(ctx, input, ctx.own(m, "weight"), max_norm=m.max_norm)
