"""Comparison, logic, and choosing by a mask."""

from __future__ import annotations

import operator

import torch

from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import method, op


def _compare(op_type: str, negate: bool = False):
    def convert(ctx, input, other):
        if input is None or other is None:
            raise Unsupported("a comparison with None is not supported")
        left, right = ctx.promoted(input, other)
        if op_type != "Equal" and ctx.dtype(left) == torch.bool:
            left, right = ctx.cast(left, torch.int32), ctx.cast(right, torch.int32)
        result = ctx.op(op_type, left, right, dtype=torch.bool)
        return ctx.op("Not", result) if negate else result

    return convert


op("eq", functions=(operator.eq,))(_compare("Equal"))
op("ne", "not_equal", functions=(operator.ne,))(_compare("Equal", negate=True))
op("lt", "less", functions=(operator.lt,))(_compare("Less"))
op("le", "less_equal", functions=(operator.le,))(_compare("LessOrEqual"))
op("gt", "greater", functions=(operator.gt,))(_compare("Greater"))
op("ge", "greater_equal", functions=(operator.ge,))(_compare("GreaterOrEqual"))


def _logic(op_type: str, bitwise: str | None):
    def convert(ctx, input, other):
        if bitwise and ctx.result_type(input, other) != torch.bool:
            return ctx.op(bitwise, *ctx.promoted(input, other))
        return ctx.op(op_type, ctx.cast(input, torch.bool), ctx.cast(other, torch.bool))

    return convert


op("logical_and")(_logic("And", None))
op("logical_or")(_logic("Or", None))
op("logical_xor")(_logic("Xor", None))
op("bitwise_and", functions=(operator.and_, operator.iand))(_logic("And", "BitwiseAnd"))
op("bitwise_or", functions=(operator.or_, operator.ior))(_logic("Or", "BitwiseOr"))
op("bitwise_xor", functions=(operator.xor, operator.ixor))(_logic("Xor", "BitwiseXor"))


@op("logical_not")
def logical_not(ctx, input):
    return ctx.op("Not", ctx.cast(input, torch.bool))


@op("bitwise_not", functions=(operator.invert,))
def bitwise_not(ctx, input):
    return ctx.op("Not", input) if ctx.dtype(input) == torch.bool else ctx.op("BitwiseNot", input)


@op("isnan")
def isnan(ctx, input):
    return ctx.op("IsNaN", input, dtype=torch.bool)


@op("isinf")
def isinf(ctx, input):
    return ctx.op("IsInf", input, dtype=torch.bool)


@op("where", methods=False)
def where(ctx, condition, input=None, other=None):
    if input is None or other is None:
        raise Unsupported("the number of indices that torch.where(condition) returns depends on tensor values", "FX402")
    left, right = ctx.promoted(input, other)
    return ctx.op("Where", ctx.cast(condition, torch.bool), left, right, dtype=ctx.dtype(left))


@method("where")
def where_method(ctx, input, condition, other):
    return where(ctx, condition, input, other)


@op("masked_fill")
def masked_fill(ctx, input, mask, value):
    return ctx.op("Where", ctx.cast(mask, torch.bool), ctx.cast(value, ctx.dtype(input)), input, dtype=ctx.dtype(input))
