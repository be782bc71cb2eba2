"""Batch, layer, group, instance, RMS and local response normalization."""

from __future__ import annotations

import torch
import torch.nn as nn

from fxlib.lowering.onnx.context import product
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import aten, module, op


@op("batch_norm")
def batch_norm(
    ctx, input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5,
):  # fmt: skip
    if not training:
        return _batch_norm(ctx, input, running_mean, running_var, weight, bias, eps)
    if running_mean is not None:
        raise Unsupported("batch norm in training mode updates its statistics; call .eval() on the model", "FX405")
    return _batch_statistics(ctx, input, weight, bias, eps)


@aten("batch_norm")
def aten_batch_norm(ctx, input, weight, bias, mean, var, training, momentum, eps, cudnn_enabled=True):
    return batch_norm(ctx, input, mean, var, weight, bias, training, momentum, eps)


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(ctx, input, weight, bias, mean, var, momentum, eps):
    return _batch_norm(ctx, input, mean, var, weight, bias, eps), None, None


@aten("_native_batch_norm_legit")
def batch_norm_legit(ctx, input, weight, bias, *more):
    # The running statistics come before the other arguments, or are absent.
    *statistics, training, momentum, eps = more
    mean, var = statistics or (None, None)
    return batch_norm(ctx, input, mean, var, weight, bias, training, momentum, eps), None, None


def _batch_statistics(ctx, input, weight, bias, eps):
    """Batch norm by the batch's own mean and variance, as weight standardization uses it."""
    kind, rank = ctx.dtype(input), ctx.rank(input)
    axes = ctx.constant([0, *range(2, rank)])
    centred = ctx.op("Sub", input, ctx.op("ReduceMean", input, axes, keepdims=1))
    variance = ctx.op("ReduceMean", ctx.op("Mul", centred, centred), axes, keepdims=1)
    scaled = ctx.op("Div", centred, ctx.op("Sqrt", ctx.op("Add", variance, ctx.constant(eps, kind))))
    return _affine(ctx, scaled, weight, bias, rank)


def _batch_norm(ctx, input, mean, var, weight, bias, eps):
    if mean is None or var is None:
        raise Unsupported("batch norm without running statistics normalizes with those of the batch")
    kind, channels = ctx.dtype(mean), ctx.sizes(mean)[0]
    if weight is None:
        weight = ctx.constant([1] * channels, kind)
    if bias is None:
        bias = ctx.constant([0] * channels, kind)
    return ctx.op("BatchNormalization", input, weight, bias, mean, var, epsilon=float(eps))


@module(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def batch_norm_module(ctx, m, input):
    if m.training or not m.track_running_stats or m.running_mean is None:
        raise Unsupported(
            "batch norm in training mode, or without running statistics, normalizes with those of the batch", "FX405"
        )
    mean, var = ctx.own(m, "running_mean"), ctx.own(m, "running_var")
    return _batch_norm(ctx, input, mean, var, ctx.own(m, "weight"), ctx.own(m, "bias"), m.eps)


def _layer_norm(ctx, input, shape, weight, bias, eps):
    shape = list(shape)
    kind = ctx.dtype(input)
    if weight is None:
        weight = ctx.op("Expand", ctx.constant(1, kind), ctx.shape(shape))
    return ctx.op("LayerNormalization", input, weight, bias, axis=-len(shape), epsilon=float(eps))


@op("layer_norm", "native_layer_norm")
def layer_norm(ctx, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    result = _layer_norm(ctx, input, normalized_shape, weight, bias, eps)
    return result if isinstance(ctx.fake, torch.Tensor) else (result, None, None)


@module(nn.LayerNorm)
def layer_norm_module(ctx, m, input):
    return _layer_norm(ctx, input, m.normalized_shape, ctx.own(m, "weight"), ctx.own(m, "bias"), m.eps)


def _affine(ctx, value, weight, bias, rank):
    shape = [-1] + [1] * (rank - 2)
    if weight is not None:
        value = ctx.op("Mul", value, ctx.reshape(weight, shape))
    if bias is not None:
        value = ctx.op("Add", value, ctx.reshape(bias, shape))
    return value


def _group_norm(ctx, input, groups, weight, bias, eps):
    # Normalize [n, groups, rest] as an instance norm: opset 20 has no per-channel GroupNormalization.
    sizes = list(ctx.sizes(input))
    kind = ctx.dtype(input)
    count = product(s for s in sizes[1:]) // groups
    flat = ctx.reshape(input, [sizes[0], groups, count])
    ones, zeros = (ctx.constant([v] * groups, kind) for v in (1, 0))
    normal = ctx.op("InstanceNormalization", flat, ones, zeros, epsilon=float(eps))
    return _affine(ctx, ctx.reshape(normal, sizes), weight, bias, len(sizes))


@aten("native_group_norm")
def native_group_norm(ctx, input, weight, bias, n, c, size, groups, eps):
    return _group_norm(ctx, input, groups, weight, bias, eps), None, None


@op("group_norm")
def group_norm(ctx, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return _group_norm(ctx, input, num_groups, weight, bias, eps)


@module(nn.GroupNorm)
def group_norm_module(ctx, m, input):
    return _group_norm(ctx, input, m.num_groups, ctx.own(m, "weight"), ctx.own(m, "bias"), m.eps)


@op("instance_norm")
def instance_norm(
    ctx,
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
    cudnn_enabled=True,
):
    if not use_input_stats:
        return _batch_norm(ctx, input, running_mean, running_var, weight, bias, eps)
    if running_mean is not None:
        raise Unsupported("instance norm in training mode updates its statistics; call .eval() on the model", "FX405")
    return _instance_norm(ctx, input, ctx.static(ctx.sizes(input)[1], "the number of channels"), weight, bias, eps)


def _instance_norm(ctx, input, channels, weight, bias, eps):
    kind = ctx.dtype(input)
    weight = weight if weight is not None else ctx.constant([1] * channels, kind)
    bias = bias if bias is not None else ctx.constant([0] * channels, kind)
    return ctx.op("InstanceNormalization", input, weight, bias, epsilon=float(eps))


@aten("instance_norm")
def aten_instance_norm(ctx, input, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled=True):
    return instance_norm(ctx, input, mean, var, weight, bias, use_input_stats, momentum, eps)


_SPATIAL = {nn.InstanceNorm1d: 1, nn.InstanceNorm2d: 2, nn.InstanceNorm3d: 3}


@module(*_SPATIAL)
def instance_norm_module(ctx, m, input):
    mean, var, weight, bias = (ctx.own(m, name) for name in ("running_mean", "running_var", "weight", "bias"))
    if ctx.rank(input) == _SPATIAL[type(m)] + 2:
        return instance_norm(ctx, input, mean, var, weight, bias, m.training or not m.track_running_stats, eps=m.eps)
    if mean is not None:
        raise Unsupported("instance norm with running statistics needs inputs with a batch dimension")
    one = ctx.op("Unsqueeze", input, ctx.constant([0]))
    channels = ctx.static(ctx.sizes(input)[0], "the number of channels")
    return ctx.op("Squeeze", _instance_norm(ctx, one, channels, weight, bias, m.eps), ctx.constant([0]))


def _rms_norm(ctx, input, shape, weight, eps):
    kind = torch.promote_types(ctx.dtype(input), torch.float32)  # in half precision torch computes in single, too
    axes = ctx.constant([-i for i in range(len(list(shape)), 0, -1)])
    eps = torch.finfo(kind).eps if eps is None else eps
    input = ctx.cast(input, kind)
    mean = ctx.op("ReduceMean", ctx.op("Mul", input, input), axes, keepdims=1)
    scale = ctx.op("Sqrt", ctx.op("Add", mean, ctx.constant(eps, kind)))
    result = ctx.op("Div", input, scale)
    return result if weight is None else ctx.op("Mul", result, ctx.cast(weight, kind))


@op("rms_norm")
def rms_norm(ctx, input, normalized_shape, weight=None, eps=None):
    return _rms_norm(ctx, input, normalized_shape, weight, eps)


@module(nn.RMSNorm)
def rms_norm_module(ctx, m, input):
    weight = ctx.own(m, "weight")
    return _rms_norm(ctx, input, m.normalized_shape, weight, m.eps)


@op("local_response_norm")
def local_response_norm(ctx, input, size, alpha=1e-4, beta=0.75, k=1.0):
    if size % 2 == 0:
        raise Unsupported("local_response_norm with an even size is not supported")
    if size == 1:
        kind = ctx.dtype(input)
        square = ctx.op("Mul", ctx.op("Mul", input, input), ctx.constant(alpha, kind))
        return ctx.op(
            "Div", input, ctx.op("Pow", ctx.op("Add", square, ctx.constant(k, kind)), ctx.constant(beta, kind))
        )
    sizes = list(ctx.sizes(input))
    image = input if len(sizes) == 4 else ctx.reshape(input, [*sizes[:2], product(sizes[2:]), 1])
    result = ctx.op("LRN", image, alpha=float(alpha), beta=float(beta), bias=float(k), size=size)
    return result if len(sizes) == 4 else ctx.reshape(result, sizes)


@module(nn.LocalResponseNorm)
def local_response_norm_module(ctx, m, input):
    return local_response_norm(ctx, input, m.size, m.alpha, m.beta, m.k)


@op("normalize", methods=False)
def normalize(ctx, input, p=2.0, dim=1, eps=1e-12, out=None):
    if p not in (1, 2):
        raise Unsupported(f"normalize with p={p} is not supported")
    dims = [dim] if isinstance(dim, int) else list(dim)
    norm = ctx.op("ReduceL2" if p == 2 else "ReduceL1", input, ctx.constant(dims), keepdims=1)
    return ctx.op("Div", input, ctx.op("Max", norm, ctx.constant(eps, ctx.dtype(input))))


@op("weight_norm", "_weight_norm")
def weight_norm(ctx, v, g, dim=0):
    rank = ctx.rank(v)
    # -1 means the norm of the whole weight, as modules with dim=None have it.
    axes = None if dim == -1 else [d for d in range(rank) if d != dim % rank]
    size = ctx.op("Abs", v) if axes == [] else ctx.op("ReduceL2", v, axes and ctx.constant(axes), keepdims=1)
    return ctx.op("Mul", v, ctx.op("Div", g, size))
