"""Scaled dot-product attention and the modules built on it."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn as nn

from fxlib.lowering.onnx.converters.linear import linear
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, op


@op("scaled_dot_product_attention", methods=False)
def attention(ctx, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p:
        raise Unsupported("attention with dropout is random; set dropout to 0 in eval mode", "FX405")
    if enable_gqa and ctx.sizes(query)[-3] != ctx.sizes(key)[-3]:
        key, value = _repeat_heads(ctx, query, key), _repeat_heads(ctx, query, value)
    kind = ctx.dtype(query)
    width = ctx.static(ctx.sizes(query)[-1], "the size of an attention head")
    scale = 1 / math.sqrt(width) if scale is None else scale
    scores = _scores(ctx, query, key, scale, kind, ctx.rank(key))
    if is_causal:
        rows, cols = (ctx.static(ctx.sizes(each)[-2], "the length of a causal sequence") for each in (query, key))
        # The most negative finite number: a row is never fully masked here, and not every engine's fp16 softmax
        # supports -inf.
        blocked = np.triu(
            np.full((rows, cols), np.finfo(np.float32).min if kind != torch.float16 else -6e4, dtype=np.float32), 1
        )
        scores = ctx.op("Add", scores, ctx.cast(ctx.constant(blocked), kind))
    if attn_mask is not None:
        scores = _masked(ctx, scores, attn_mask, kind, allowed=True)
    weights = ctx.op("Softmax", scores, axis=-1)
    if attn_mask is not None and ctx.dtype(attn_mask) == torch.bool:
        # In torch, a query that may attend to nothing gets zeros.
        weights = ctx.op("Where", attn_mask, weights, ctx.constant(0, kind), dtype=kind)
    elif attn_mask is not None and _may_exclude_all(attn_mask):
        low = ctx.constant(-math.inf, torch.float32)
        out = ctx.op("Equal", ctx.cast(attn_mask, torch.float32), low, dtype=torch.bool)
        none = ctx.op("ReduceMin", ctx.cast(out, torch.int32), ctx.constant([-1]), keepdims=1)
        weights = ctx.op("Where", ctx.cast(none, torch.bool), ctx.constant(0, kind), weights, dtype=kind)
    return ctx.op("MatMul", weights, value)


def _may_exclude_all(mask):
    """Whether a mask may be -inf for all keys of a query."""
    if mask.const_value is None:
        return True
    return bool((mask.const_value.numpy().max(-1) == -np.inf).any())


def _scores(ctx, query, key, scale, kind, rank):
    turned = ctx.op("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    return ctx.op("MatMul", ctx.op("Mul", query, ctx.constant(scale, kind)), turned)


def _masked(ctx, scores, mask, kind, allowed):
    """Scores with a mask added; in a boolean mask, True means `allowed`."""
    if ctx.dtype(mask) == torch.bool:
        low = -math.inf
        there, elsewhere = (0, low) if allowed else (low, 0)
        mask = ctx.op("Where", mask, ctx.constant(there, kind), ctx.constant(elsewhere, kind), dtype=kind)
    return ctx.op("Add", scores, ctx.cast(mask, kind))


def _repeat_heads(ctx, query, value):
    *lead, heads, length, width = ctx.sizes(value)
    times = ctx.sizes(query)[-3] // heads
    axis = len(lead) + 1
    wide = ctx.op("Unsqueeze", value, ctx.constant([axis]))
    wide = ctx.op("Expand", wide, ctx.shape([*lead, heads, times, length, width]))
    return ctx.reshape(wide, [*lead, heads * times, length, width])


@module(nn.MultiheadAttention)
def multihead_attention(
    ctx,
    m,
    query,
    key,
    value,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    average_attn_weights=True,
    is_causal=False,
):
    if not m._qkv_same_embed_dim or m.bias_k is not None or m.add_zero_attn:
        raise Unsupported("MultiheadAttention with kdim, vdim, add_bias_kv or add_zero_attn is not supported")
    if ctx.rank(query) != 3 or key_padding_mask is not None:
        raise Unsupported("MultiheadAttention is not supported without a batch dimension, or with key_padding_mask")
    if m.training and m.dropout:
        raise Unsupported("attention with dropout is random; set dropout to 0 in eval mode", "FX405")
    path, kind = ctx.current.target, ctx.dtype(query)
    heads, width = m.num_heads, m.head_dim
    embed = m.embed_dim
    weight = m.in_proj_weight.detach()
    bias = None if m.in_proj_bias is None else m.in_proj_bias.detach()
    batch_axis = 0 if m.batch_first else 1
    batch = ctx.sizes(query)[batch_axis]

    def project(source, index, label):
        w = ctx.parameter(f"{path}.{label}_weight", weight[index * embed : (index + 1) * embed])
        b = None if bias is None else ctx.parameter(f"{path}.{label}_bias", bias[index * embed : (index + 1) * embed])
        length = ctx.sizes(source)[1 - batch_axis]
        flat = linear(ctx, source, w, b)
        if m.batch_first:
            return ctx.op("Transpose", ctx.reshape(flat, [batch, length, heads, width]), perm=[0, 2, 1, 3])
        return ctx.op("Transpose", ctx.reshape(flat, [length, batch, heads, width]), perm=[1, 2, 0, 3])

    q, k, v = project(query, 0, "q"), project(key, 1, "k"), project(value, 2, "v")
    scores = _scores(ctx, q, k, 1 / math.sqrt(width), kind, 4)
    if attn_mask is not None:
        if ctx.rank(attn_mask) != 2:
            raise Unsupported("MultiheadAttention with a mask for each head is not supported")
        scores = _masked(ctx, scores, attn_mask, kind, allowed=False)
    weights = ctx.op("Softmax", scores, axis=-1)
    mixed = ctx.op("MatMul", weights, v)
    length = ctx.sizes(query)[1 - batch_axis]
    order, shape = ([0, 2, 1, 3], [batch, length, embed]) if m.batch_first else ([2, 0, 1, 3], [length, batch, embed])
    joined = ctx.reshape(ctx.op("Transpose", mixed, perm=order), shape)
    weight, bias = (getattr(m.out_proj, name) for name in ("weight", "bias"))
    out = ctx.op("MatMul", joined, ctx.op("Transpose", ctx.parameter(f"{path}.out_proj.weight", weight), perm=[1, 0]))
    out = out if bias is None else ctx.op("Add", out, ctx.parameter(f"{path}.out_proj.bias", bias))
    if not need_weights:
        return out, None
    return out, ctx.op("ReduceMean", weights, ctx.constant([1]), keepdims=0) if average_attn_weights else weights
