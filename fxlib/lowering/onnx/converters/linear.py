"""Matrix products."""

from __future__ import annotations

import operator

import torch
import torch.nn as nn

from fxlib.lowering.onnx.arguments import spread
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, op


def _transposed(ctx, value):
    rank = ctx.rank(value)
    turned = ctx.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
    return ctx.bind(turned, ctx.example(value).transpose(-1, -2))


def _product(ctx, input, other):
    if ctx.rank(other) != 1:
        return ctx.op("MatMul", input, other)
    # ONNX Runtime 1.31 forgets a Transpose of the matrix if the vector has one dimension.
    last = ctx.constant([-1])
    return ctx.op("Squeeze", ctx.op("MatMul", input, ctx.op("Unsqueeze", other, last)), last)


@op("linear")
def linear(ctx, input, weight, bias=None):
    if ctx.rank(weight) == 1:
        result = _product(ctx, input, weight)
        return result if bias is None else ctx.op("Add", result, bias)
    if ctx.rank(input) == 2:
        return ctx.op("Gemm", input, weight, bias, transB=1)
    result = ctx.op("MatMul", input, _transposed(ctx, weight))
    return result if bias is None else ctx.op("Add", result, bias)


@module(nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
def linear_module(ctx, m, input):
    return linear(ctx, input, ctx.own(m, "weight"), ctx.own(m, "bias"))


@module(nn.Bilinear)
def bilinear_module(ctx, m, left, right):
    weight = ctx.own(m, "weight")
    result = ctx.op("Einsum", left, weight, right, equation="...i,oij,...j->...o")
    return result if m.bias is None else ctx.op("Add", result, ctx.own(m, "bias"))


@op("matmul", "mm", "bmm", "__matmul__", functions=(operator.matmul,))
def matmul(ctx, input, other):
    if ctx.dtype(input) == torch.bool:
        raise Unsupported("a matrix product of bool tensors is not supported")
    return _product(ctx, input, other)


@op("mv", "dot", "inner")
def vector(ctx, input, other):
    if ctx.rank(other) > 1:
        raise Unsupported("torch.inner of matrices is not supported")
    if 0 in (ctx.rank(input), ctx.rank(other)):
        return ctx.op("Mul", input, other)
    return _product(ctx, input, other)


@op("addmm", "baddbmm", "addbmm")
def addmm(ctx, input, mat1, mat2, *, beta=1, alpha=1):
    kind = ctx.dtype(input)
    # ONNX Runtime forgets beta where there is nothing to multiply.
    if ctx.rank(mat1) == 2 and kind.is_floating_point and 0 not in ctx.sizes(mat1):
        return ctx.op("Gemm", mat1, mat2, input if beta else None, alpha=float(alpha), beta=float(beta))
    product = ctx.op("MatMul", mat1, mat2)
    if ctx.rank(mat1) == 3 and len(ctx.fake.shape) == 2:  # addbmm adds the products of a batch
        product = ctx.op("ReduceSum", product, ctx.constant([0]), keepdims=0)
    if alpha != 1:
        product = ctx.op("Mul", product, ctx.constant(alpha, kind))
    if beta == 0:
        return product
    return ctx.op("Add", product, input if beta == 1 else ctx.op("Mul", input, ctx.constant(beta, kind)))


@op("einsum")
def einsum(ctx, equation, *operands, path=None):
    for each in spread(operands):
        ctx.filled(each, "einsum")
    return ctx.op("Einsum", *spread(operands), equation=equation.replace(" ", ""))


@op("outer", "ger")
def outer(ctx, input, vec2):
    return ctx.op("Mul", ctx.op("Unsqueeze", input, ctx.constant([1])), ctx.op("Unsqueeze", vec2, ctx.constant([0])))
