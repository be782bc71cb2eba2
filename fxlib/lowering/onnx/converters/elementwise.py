"""Arithmetic and functions of one operand, element by element; activations are in `activation`."""

from __future__ import annotations

import math
import operator
from typing import Any

import onnx_ir as ir
import torch

from fxlib.lowering.onnx.context import Context
from fxlib.lowering.onnx.registry import op

# -- arithmetic
# ---------------------------------------------------------------------------------------------------------------


def _scaled(ctx: Context, other: Any, alpha: Any) -> Any:
    if alpha == 1:
        return other
    if not isinstance(other, ir.Value):
        return other * alpha
    return ctx.op("Mul", other, ctx.constant(alpha, ctx.dtype(other)))


def _binary(ctx: Context, op_type: str, a: Any, b: Any) -> ir.Value:
    left, right = ctx.promoted(a, b)
    return ctx.op(op_type, left, right)


def _towards_zero(ctx: Context, value: ir.Value) -> ir.Value:
    return ctx.op("Mul", ctx.op("Sign", value), ctx.op("Floor", ctx.op("Abs", value)))


@op("add", functions=(operator.add, operator.iadd))
def add(ctx, input, other, *, alpha=1):
    if ctx.result_type(input, other) == torch.bool:
        return _binary(ctx, "Or", input, other)
    left, right = ctx.promoted(input, other)
    return ctx.op("Add", left, _scaled(ctx, right, alpha))


@op("sub", "subtract", functions=(operator.sub, operator.isub))
def sub(ctx, input, other, *, alpha=1):
    left, right = ctx.promoted(input, other)
    return ctx.op("Sub", left, _scaled(ctx, right, alpha))


@op("rsub")
def rsub(ctx, input, other, *, alpha=1):
    left, right = ctx.promoted(input, other)
    return ctx.op("Sub", right, _scaled(ctx, left, alpha))


@op("mul", "multiply", functions=(operator.mul, operator.imul))
def mul(ctx, input, other):
    if ctx.result_type(input, other) == torch.bool:
        return _binary(ctx, "And", input, other)
    return _binary(ctx, "Mul", input, other)


@op("div", "divide", "true_divide", functions=(operator.truediv, operator.itruediv))
def div(ctx, input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(ctx, input, other)
    wanted = ctx.result_type(input, other)
    if rounding_mode == "trunc":
        if wanted.is_floating_point:
            return _towards_zero(ctx, _binary(ctx, "Div", input, other))
        return _binary(ctx, "Div", input, other)  # ONNX's integer Div truncates
    if not wanted.is_floating_point:
        wanted = torch.get_default_dtype()
    return ctx.op("Div", *ctx.promoted(input, other, dtype=wanted))


@op("floor_divide", functions=(operator.floordiv, operator.ifloordiv))
def floor_divide(ctx, input, other):
    wanted = ctx.result_type(input, other)
    left, right = ctx.promoted(input, other)
    if wanted.is_floating_point:
        return ctx.op("Floor", ctx.op("Div", left, right))
    # ONNX's integer Div truncates towards zero; floor is one less where the signs differ and it did not divide.
    quotient = ctx.op("Div", left, right)
    rest = ctx.op("Sub", left, ctx.op("Mul", quotient, right))
    inexact = ctx.op("Not", ctx.op("Equal", rest, ctx.constant(0, wanted), dtype=torch.bool))
    negative = ctx.op(
        "Xor",
        ctx.op("Less", rest, ctx.constant(0, wanted), dtype=torch.bool),
        ctx.op("Less", right, ctx.constant(0, wanted), dtype=torch.bool),
    )
    return ctx.op("Sub", quotient, ctx.cast(ctx.op("And", inexact, negative), wanted))


@op("remainder", functions=(operator.mod, operator.imod))
def remainder(ctx, input, other):
    wanted = ctx.result_type(input, other)
    left, right = ctx.promoted(input, other)
    if wanted.is_floating_point:
        return ctx.op("Sub", left, ctx.op("Mul", right, ctx.op("Floor", ctx.op("Div", left, right))))
    return ctx.op("Mod", left, right)


@op("fmod")
def fmod(ctx, input, other):
    left, right = ctx.promoted(input, other)
    return ctx.op("Mod", left, right, fmod=1)


@op("pow", functions=(operator.pow, operator.ipow))
def pow_(ctx, input, exponent):
    wanted = ctx.result_type(input, exponent)
    if exponent == 2 and isinstance(exponent, (int, float)):
        value = ctx.cast(input, wanted)
        return ctx.op("Mul", value, value)
    if exponent == 0.5 and wanted.is_floating_point and not isinstance(exponent, ir.Value):
        return ctx.op("Sqrt", ctx.cast(input, wanted))
    return ctx.op("Pow", *ctx.promoted(input, exponent))


@op("addcmul")
def addcmul(ctx, input, tensor1, tensor2, *, value=1):
    return add(ctx, input, mul(ctx, tensor1, tensor2), alpha=value)


@op("addcdiv")
def addcdiv(ctx, input, tensor1, tensor2, *, value=1):
    return add(ctx, input, div(ctx, tensor1, tensor2), alpha=value)


@op("lerp")
def lerp(ctx, input, end, weight):
    weight = weight if isinstance(weight, ir.Value) else ctx.constant(weight, ctx.dtype(input))
    return ctx.op("Add", input, ctx.op("Mul", weight, ctx.op("Sub", end, input)))


@op("maximum")
def maximum(ctx, input, other):
    return _binary(ctx, "Max", input, other)


@op("minimum")
def minimum(ctx, input, other):
    return _binary(ctx, "Min", input, other)


@op("clamp", "clip")
def clamp(ctx, input, min=None, max=None):
    bounds = [bound for bound in (min, max) if bound is not None]
    wanted = ctx.result_type(input, *bounds) if bounds else ctx.dtype(input)
    result = ctx.cast(input, wanted)
    if not isinstance(min, ir.Value) and not isinstance(max, ir.Value):
        low = None if min is None else ctx.constant(min, wanted)
        high = None if max is None else ctx.constant(max, wanted)
        return ctx.op("Clip", result, low, high)
    if min is not None:
        result = ctx.op("Max", result, ctx.cast(min, wanted))
    if max is not None:
        result = ctx.op("Min", result, ctx.cast(max, wanted))
    return result


@op("clamp_min")
def clamp_min(ctx, input, min):
    return clamp(ctx, input, min=min)


@op("clamp_max")
def clamp_max(ctx, input, max):
    return clamp(ctx, input, max=max)


# -- one operand
# ----------------------------------------------------------------------------------------------------------------

_FLOAT_UNARY = {
    "sqrt": "Sqrt",
    "exp": "Exp",
    "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "reciprocal": "Reciprocal",
}
_SAME_UNARY = {
    "abs": "Abs",
    "absolute": "Abs",
    "neg": "Neg",
    "negative": "Neg",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sign": "Sign",
}


def _float(ctx: Context, value: ir.Value) -> ir.Value:
    return value if ctx.dtype(value).is_floating_point else ctx.cast(value, torch.get_default_dtype())


def _register_unary() -> None:
    def floating(kind):
        return lambda ctx, input: ctx.op(kind, _float(ctx, input))

    def same(kind):
        def convert(ctx, input):
            if kind in ("Floor", "Ceil", "Round") and not ctx.dtype(input).is_floating_point:
                return input
            return ctx.op(kind, input)

        return convert

    for name, kind in _FLOAT_UNARY.items():
        op(name)(floating(kind))
    for name, kind in _SAME_UNARY.items():
        extra = {"neg": (operator.neg,), "abs": (operator.abs, abs)}.get(name, ())
        op(name, functions=extra)(same(kind))


_register_unary()


@op("atan2", "arctan2")
def atan2(ctx, input, other):
    wanted = ctx.result_type(input, other)
    y, x = ctx.promoted(input, other, dtype=wanted if wanted.is_floating_point else torch.get_default_dtype())
    kind = ctx.dtype(y)
    zero, half, whole = (ctx.constant(number, kind) for number in (0, math.pi / 2, math.pi))
    below = ctx.op("Less", y, zero, dtype=torch.bool)
    signed = lambda size: ctx.op("Where", below, ctx.op("Neg", size), size, dtype=kind)  # noqa: E731
    right = ctx.op("Atan", ctx.op("Div", y, x))
    # On the left the angle goes on beyond a right one; on the axis, where nothing can be divided by, it is one or none.
    left = ctx.op("Add", right, signed(whole))
    flat = ctx.op("Equal", y, zero, dtype=torch.bool)
    axis = ctx.op("Where", flat, zero, signed(half), dtype=kind)
    angle = ctx.op("Where", ctx.op("Less", x, zero, dtype=torch.bool), left, right, dtype=kind)
    return ctx.op("Where", ctx.op("Equal", x, zero, dtype=torch.bool), axis, angle, dtype=kind)


@op("rsqrt")
def rsqrt(ctx, input):
    return ctx.op("Reciprocal", ctx.op("Sqrt", _float(ctx, input)))


@op("square")
def square(ctx, input):
    return ctx.op("Mul", input, input)


def _logarithm(base: int):
    return lambda ctx, input: _scaled(ctx, ctx.op("Log", _float(ctx, input)), 1 / math.log(base))


op("log2")(_logarithm(2))
op("log10")(_logarithm(10))


@op("log1p")
def log1p(ctx, input):
    # What rounding 1 + x loses of x, the quotient puts back.
    value = _float(ctx, input)
    one = ctx.constant(1, ctx.dtype(value))
    above = ctx.op("Add", value, one)
    rounded = ctx.op("Sub", above, one)
    log = ctx.op("Log", above)
    exact = ctx.op("Where", ctx.op("Equal", rounded, value), log, ctx.op("Mul", log, ctx.op("Div", value, rounded)))
    return ctx.op("Where", ctx.op("Equal", above, one), value, exact)


@op("expm1")
def expm1(ctx, input):
    # The same the other way round; at a distance from 0 nothing is lost.
    value = _float(ctx, input)
    one = ctx.constant(1, ctx.dtype(value))
    power = ctx.op("Exp", value)
    above = ctx.op("Sub", power, one)
    near = ctx.op("Mul", above, ctx.op("Div", value, ctx.op("Log", power)))
    exact = ctx.op("Where", ctx.op("Greater", ctx.op("Abs", value), one), above, near)
    return ctx.op("Where", ctx.op("Equal", power, one), value, exact)


@op("exp2")
def exp2(ctx, input):
    return ctx.op("Exp", _scaled(ctx, _float(ctx, input), math.log(2)))


@op("trunc", "fix")
def trunc(ctx, input):
    if not ctx.dtype(input).is_floating_point:
        return input
    return _towards_zero(ctx, input)
