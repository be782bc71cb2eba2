"""Arithmetic and functions of one operand, element by element; activations are in `activation`."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import onnx_ir as ir
import torch

from fxlib.lowering.onnx.context import Context
from fxlib.lowering.onnx.dtypes import limits
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


def _overshot(ctx: Context, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Whether a division towards zero, which left this rest, ended above the floor: where the signs of both differ."""
    zero = ctx.constant(0, ctx.dtype(rest))
    inexact = ctx.op("Not", ctx.op("Equal", rest, zero, dtype=torch.bool))
    negative = (ctx.op("Less", each, zero, dtype=torch.bool) for each in (rest, divisor))
    return ctx.op("And", inexact, ctx.op("Xor", *negative))


@op("floor_divide", functions=(operator.floordiv, operator.ifloordiv))
def floor_divide(ctx, input, other):
    wanted = ctx.result_type(input, other)
    left, right = ctx.promoted(input, other)
    if not wanted.is_floating_point:
        return ctx.floor_div(left, right)
    quotient = ctx.op("Div", left, right)
    # 6.6 / 0.2 rounds to 33, but 33 * 0.2 is more than 6.6: the rest, which is exact, tells that it is 32.
    rest = ctx.op("Mod", left, right, fmod=1)
    whole = ctx.op("Round", ctx.op("Div", ctx.op("Sub", left, rest), right))
    result = ctx.op("Sub", whole, ctx.cast(_overshot(ctx, rest, right), wanted))
    if not isinstance(other, ir.Value) and other != 0:
        return result
    return ctx.op(
        "Where", ctx.op("Equal", right, ctx.constant(0, wanted), dtype=torch.bool), quotient, result, dtype=wanted
    )


@op("remainder", functions=(operator.mod, operator.imod))
def remainder(ctx, input, other):
    left, right = ctx.promoted(input, other)
    if not ctx.result_type(input, other).is_floating_point:
        return ctx.op("Mod", left, right)
    rest = ctx.op("Mod", left, right, fmod=1)
    return ctx.op("Where", _overshot(ctx, rest, right), ctx.op("Add", rest, right), rest, dtype=ctx.dtype(rest))


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
    if not wanted.is_floating_point and isinstance(exponent, int) and 2 < exponent <= 8:
        # ONNX Runtime computes a power of integers in double, which has fewer digits and does not wrap around.
        value = ctx.cast(input, wanted)
        return reduce(lambda result, _: ctx.op("Mul", result, value), range(exponent - 1), value)
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
    kind, way = ctx.dtype(input), ctx.op("Sub", end, input)
    near = lambda: ctx.op("Add", input, ctx.op("Mul", way, weight))  # noqa: E731
    far = lambda: ctx.op("Sub", end, ctx.op("Mul", way, ctx.op("Sub", ctx.constant(1, kind), weight)))  # noqa: E731
    if not isinstance(weight, ir.Value):
        half, weight = abs(weight) < 0.5, ctx.constant(weight, kind)
        return near() if half else far()
    half = ctx.op("Less", ctx.op("Abs", weight), ctx.constant(0.5, kind), dtype=torch.bool)
    return ctx.op("Where", half, near(), far(), dtype=kind)


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
        # Without a bound, ONNX takes the largest finite number, so that infinity would become that.
        ends = limits(wanted)
        given = (end if bound is None else bound for bound, end in zip((min, max), ends, strict=True))
        return ctx.op("Clip", result, *(ctx.constant(each, wanted) for each in given))
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
    height, width = ctx.op("Abs", y), ctx.op("Abs", x)
    # Two zeros or two infinities have no quotient, but an angle: 0 or 45 degrees.
    equal = ctx.op("Equal", height, width, dtype=torch.bool)
    slope = ctx.op("Where", equal, ctx.op("Sign", height), ctx.op("Div", height, width), dtype=kind)
    angle = ctx.op("Atan", slope)
    left = ctx.op("Sub", ctx.constant(math.pi, kind), angle)
    angle = ctx.op("Where", _signed(ctx, x), left, angle, dtype=kind)
    return ctx.op("Where", _signed(ctx, y), ctx.op("Neg", angle), angle, dtype=kind)


def _signed(ctx: Context, value: ir.Value) -> ir.Value:
    """Whether a number has a minus sign; for -0.0 only the reciprocal shows it."""
    zero = ctx.constant(0, ctx.dtype(value))
    below = ctx.op("Less", value, zero, dtype=torch.bool)
    return ctx.op("Or", below, ctx.op("Less", ctx.op("Reciprocal", value), zero, dtype=torch.bool))


@op("rsqrt")
def rsqrt(ctx, input):
    return ctx.op("Reciprocal", ctx.op("Sqrt", _float(ctx, input)))


@op("square")
def square(ctx, input):
    return ctx.op("Mul", input, input)


def _logarithm(base: int):
    """A scaled natural logarithm; exact for powers of the base, since what follows may round down."""

    def convert(ctx, input):
        value = _float(ctx, input)
        near = _scaled(ctx, ctx.op("Log", value), 1 / math.log(base))
        whole = ctx.op("Round", near)
        power = ctx.op("Pow", ctx.constant(base, ctx.dtype(value)), whole)
        exact = ctx.op("Equal", power, value, dtype=torch.bool)
        return ctx.op("Where", exact, whole, near, dtype=ctx.dtype(value))

    return convert


op("log2")(_logarithm(2))
op("log10")(_logarithm(10))


def _near_zero(ctx: Context, value: ir.Value, near: ir.Value, far: ir.Value) -> ir.Value:
    """`near` around 0, where it is exact and where `far` loses the digits of a small number by adding 1."""
    small = ctx.op("Less", ctx.op("Abs", value), ctx.constant(0.5, ctx.dtype(value)), dtype=torch.bool)
    return ctx.op("Where", small, near, far, dtype=ctx.dtype(value))


@op("log1p")
def log1p(ctx, input):
    value = _float(ctx, input)
    kind = ctx.dtype(value)
    one, zero = ctx.constant(1, kind), ctx.constant(0, kind)
    total = ctx.op("Add", value, one)
    far = ctx.op("Log", total)
    # The logarithm of the rounded number, times the ratio of the number to its rounded part.
    left = ctx.op("Sub", total, one)
    nothing = ctx.op("Equal", left, zero, dtype=torch.bool)
    divisor = ctx.op("Where", nothing, one, left, dtype=kind)
    near = ctx.op("Where", nothing, value, ctx.op("Mul", far, ctx.op("Div", value, divisor)), dtype=kind)
    return _near_zero(ctx, value, near, far)


@op("expm1")
def expm1(ctx, input):
    value = _float(ctx, input)
    kind = ctx.dtype(value)
    one = ctx.constant(1, kind)
    tanh = ctx.op("Tanh", ctx.op("Mul", value, ctx.constant(0.5, kind)))
    near = ctx.op("Div", ctx.op("Add", tanh, tanh), ctx.op("Sub", one, tanh))
    return _near_zero(ctx, value, near, ctx.op("Sub", ctx.op("Exp", value), one))


@op("exp2")
def exp2(ctx, input):
    return ctx.op("Exp", _scaled(ctx, _float(ctx, input), math.log(2)))


@op("trunc", "fix")
def trunc(ctx, input):
    if not ctx.dtype(input).is_floating_point:
        return input
    return _towards_zero(ctx, input)
