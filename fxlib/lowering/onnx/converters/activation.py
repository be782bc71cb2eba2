"""Activation functions and softmax, as functions and as modules."""

from __future__ import annotations

import torch
import torch.nn as nn

from fxlib.lowering.onnx.converters.elementwise import clamp
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, of_module, op


@op("relu")
def relu(ctx, input, inplace=False):
    return ctx.op("Relu", input)


@op("relu6")
def relu6(ctx, input, inplace=False):
    return clamp(ctx, input, 0, 6)


@op("hardtanh")
def hardtanh(ctx, input, min_val=-1.0, max_val=1.0, inplace=False):
    return clamp(ctx, input, min_val, max_val)


@op("hardsigmoid")
def hardsigmoid(ctx, input, inplace=False):
    return ctx.op("HardSigmoid", input, alpha=1 / 6, beta=0.5)


@op("hardswish")
def hardswish(ctx, input, inplace=False):
    return ctx.op("HardSwish", input)


@op("silu")
def silu(ctx, input, inplace=False):
    return ctx.op("Mul", input, ctx.op("Sigmoid", input))


@op("mish")
def mish(ctx, input, inplace=False):
    return ctx.op("Mish", input)


@op("gelu")
def gelu(ctx, input, *, approximate="none"):
    return ctx.op("Gelu", input, approximate=approximate)


@op("elu")
def elu(ctx, input, alpha=1.0, scale=1.0, input_scale=1.0, inplace=False):
    if input_scale != 1.0:
        raise Unsupported("elu with input_scale is not supported")
    if scale != 1.0:
        return ctx.op("Selu", input, alpha=float(alpha), gamma=float(scale))
    return ctx.op("Elu", input, alpha=float(alpha))


@op("selu")
def selu(ctx, input, inplace=False):
    return ctx.op("Selu", input, alpha=1.6732632423543772, gamma=1.0507009873554805)


@op("celu")
def celu(ctx, input, alpha=1.0, inplace=False):
    return ctx.op("Celu", input, alpha=float(alpha))


@op("leaky_relu")
def leaky_relu(ctx, input, negative_slope=0.01, inplace=False):
    return ctx.op("LeakyRelu", input, alpha=float(negative_slope))


@op("prelu")
def prelu(ctx, input, weight):
    rank = ctx.rank(input)
    if rank > 2 and ctx.sizes(weight) != (1,):
        weight = ctx.reshape(weight, [-1] + [1] * (rank - 2))
    return ctx.op("PRelu", input, weight)


_SOFTPLUS_IS_LINEAR = 17
"""From here on, a softplus in single precision is its argument."""


@op("softplus")
def softplus(ctx, input, beta=1.0, threshold=20.0):
    kind = ctx.dtype(input)
    scaled = input if beta == 1 else ctx.op("Mul", input, ctx.constant(beta, kind))
    result = ctx.op("Softplus", scaled)
    if beta != 1:
        result = ctx.op("Div", result, ctx.constant(beta, kind))
    if threshold >= _SOFTPLUS_IS_LINEAR and kind != torch.float64:
        return result
    above = ctx.op("Greater", scaled, ctx.constant(threshold, kind), dtype=torch.bool)
    return ctx.op("Where", above, input, result, dtype=kind)


@op("softsign")
def softsign(ctx, input):
    return ctx.op("Softsign", input)


@op("logsigmoid")
def logsigmoid(ctx, input):
    return ctx.op("Neg", ctx.op("Softplus", ctx.op("Neg", input)))


@op("threshold")
def threshold(ctx, input, threshold, value, inplace=False):
    kind = ctx.dtype(input)
    return ctx.op(
        "Where",
        ctx.op("Greater", input, ctx.constant(threshold, kind), dtype=torch.bool),
        input,
        ctx.constant(value, kind),
        dtype=kind,
    )


@op("tanhshrink")
def tanhshrink(ctx, input):
    return ctx.op("Sub", input, ctx.op("Tanh", input))


@op("glu")
def glu(ctx, input, dim=-1):
    left, right = ctx.op("Split", input, axis=dim, num_outputs=2, outputs=2)
    return ctx.op("Mul", left, ctx.op("Sigmoid", right))


@op("softmax", "_softmax")
def softmax(ctx, input, dim=None, _stacklevel=3, dtype=None, half_to_float=False, kind="Softmax"):
    rank = ctx.rank(input)
    dim = dim if dim is not None else (0 if rank in (0, 1, 3) else 1)
    value = ctx.cast(input, ctx.fake.dtype)
    return ctx.lined(value, lambda line: ctx.op(kind, line, axis=dim), rank)


@op("log_softmax", "_log_softmax")
def log_softmax(ctx, input, dim=None, _stacklevel=3, dtype=None, half_to_float=False):
    return softmax(ctx, input, dim, kind="LogSoftmax")


for _cls, _converter, *_attributes in (
    (nn.ReLU, relu),
    (nn.ReLU6, relu6),
    (nn.Hardsigmoid, hardsigmoid),
    (nn.Hardswish, hardswish),
    (nn.SiLU, silu),
    (nn.Mish, mish),
    (nn.SELU, selu),
    (nn.Softsign, softsign),
    (nn.LogSigmoid, logsigmoid),
    (nn.Tanhshrink, tanhshrink),
    (nn.Hardtanh, hardtanh, "min_val", "max_val"),
    (nn.ELU, elu, "alpha"),
    (nn.CELU, celu, "alpha"),
    (nn.LeakyReLU, leaky_relu, "negative_slope"),
    (nn.Softplus, softplus, "beta", "threshold"),
    (nn.Threshold, threshold, "threshold", "value"),
    (nn.GLU, glu, "dim"),
    (nn.Softmax, softmax, "dim"),
    (nn.LogSoftmax, log_softmax, "dim"),
):
    module(_cls)(of_module(_converter, *_attributes))


@module(nn.GELU)
def gelu_module(ctx, m, input):
    return gelu(ctx, input, approximate=m.approximate)


@module(nn.Tanh)
def tanh_module(ctx, m, input):
    return ctx.op("Tanh", input)


@module(nn.Sigmoid)
def sigmoid_module(ctx, m, input):
    return ctx.op("Sigmoid", input)


@module(nn.Softmax2d)
def softmax2d_module(ctx, m, input):
    return ctx.op("Softmax", input, axis=-3)


@module(nn.PReLU)
def prelu_module(ctx, m, input):
    return prelu(ctx, input, ctx.own(m, "weight"))
