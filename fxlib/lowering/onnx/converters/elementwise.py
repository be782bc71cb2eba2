"""Arithmetic, comparison, logic, casts: everything computed element by element but activations."""

from __future__ import annotations

import math
import operator
from typing import Any

import onnx_ir as ir
import torch
import torch.nn as nn

from fxlib.lowering.onnx.context import Context
from fxlib.lowering.onnx.dtypes import Unsupported
from fxlib.lowering.onnx.registry import module, named, op

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


@op("add", functions=(operator.add, operator.iadd))
def add(ctx, input, other, *, alpha=1):
    wanted = ctx.result_type(input, other)
    if wanted == torch.bool:
        return ctx.op("Or", *ctx.promoted(input, other))
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
        return ctx.op("And", *ctx.promoted(input, other))
    return _binary(ctx, "Mul", input, other)


@op("div", "divide", "true_divide", functions=(operator.truediv, operator.itruediv))
def div(ctx, input, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(ctx, input, other)
    wanted = ctx.result_type(input, other)
    if rounding_mode == "trunc":
        if wanted.is_floating_point:
            quotient = _binary(ctx, "Div", input, other)
            return ctx.op("Mul", ctx.op("Sign", quotient), ctx.op("Floor", ctx.op("Abs", quotient)))
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
    return (
        add(ctx, input, mul(ctx, tensor1, tensor2), alpha=1)
        if value == 1
        else ctx.op("Add", input, ctx.op("Mul", ctx.op("Mul", tensor1, tensor2), ctx.constant(value, ctx.dtype(input))))
    )


@op("addcdiv")
def addcdiv(ctx, input, tensor1, tensor2, *, value=1):
    quotient = ctx.op("Div", tensor1, tensor2)
    return ctx.op("Add", input, ctx.op("Mul", quotient, ctx.constant(value, ctx.dtype(input))))


@op("lerp")
def lerp(ctx, input, end, weight):
    weight = weight if isinstance(weight, ir.Value) else ctx.constant(weight, ctx.dtype(input))
    return ctx.op("Add", input, ctx.op("Mul", weight, ctx.op("Sub", end, input)))


@op("maximum")
def maximum(ctx, input, other):
    return ctx.op("Max", *ctx.promoted(input, other))


@op("minimum")
def minimum(ctx, input, other):
    return ctx.op("Min", *ctx.promoted(input, other))


@op("clamp", "clip")
def clamp(ctx, input, min=None, max=None):
    result = input
    wanted = (
        ctx.result_type(input, *(b for b in (min, max) if b is not None))
        if (min, max) != (None, None)
        else ctx.dtype(input)
    )
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


@op("rsqrt")
def rsqrt(ctx, input):
    return ctx.op("Reciprocal", ctx.op("Sqrt", _float(ctx, input)))


@op("square")
def square(ctx, input):
    return ctx.op("Mul", input, input)


@op("log2")
def log2(ctx, input):
    value = ctx.op("Log", _float(ctx, input))
    return ctx.op("Mul", value, ctx.constant(1 / math.log(2), ctx.dtype(value)))


@op("log10")
def log10(ctx, input):
    value = ctx.op("Log", _float(ctx, input))
    return ctx.op("Mul", value, ctx.constant(1 / math.log(10), ctx.dtype(value)))


@op("log1p")
def log1p(ctx, input):
    value = _float(ctx, input)
    return ctx.op("Log", ctx.op("Add", value, ctx.constant(1, ctx.dtype(value))))


@op("expm1")
def expm1(ctx, input):
    value = ctx.op("Exp", _float(ctx, input))
    return ctx.op("Sub", value, ctx.constant(1, ctx.dtype(value)))


@op("exp2")
def exp2(ctx, input):
    value = _float(ctx, input)
    return ctx.op("Exp", ctx.op("Mul", value, ctx.constant(math.log(2), ctx.dtype(value))))


@op("trunc", "fix")
def trunc(ctx, input):
    if not ctx.dtype(input).is_floating_point:
        return input
    return ctx.op("Mul", ctx.op("Sign", input), ctx.op("Floor", ctx.op("Abs", input)))


# -- comparison and logic
# ---------------------------------------------------------------------------------------------------------


def _compare(op_type: str, negate: bool = False):
    def convert(ctx, input, other):
        if input is None or other is None:
            raise Unsupported("a comparison with None has no tensor form")
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


@op("where")
def where(ctx, condition, input=None, other=None):
    if input is None or other is None:
        raise Unsupported("torch.where with one argument returns indices whose number depends on the data", "FX402")
    left, right = ctx.promoted(input, other)
    return ctx.op("Where", ctx.cast(condition, torch.bool), left, right, dtype=ctx.dtype(left))


@op("masked_fill")
def masked_fill(ctx, input, mask, value):
    return ctx.op("Where", ctx.cast(mask, torch.bool), ctx.cast(value, ctx.dtype(input)), input, dtype=ctx.dtype(input))


# -- casts and things that are nothing at inference
# -----------------------------------------------------------------------------


def _cast_method(dtype):
    return lambda ctx, input, memory_format=None: ctx.cast(input, dtype)


for _name, _dtype in {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int": torch.int32,
    "long": torch.int64,
    "bool": torch.bool,
    "byte": torch.uint8,
    "char": torch.int8,
    "short": torch.int16,
}.items():
    op(_name)(_cast_method(_dtype))


@op("to", "type", "type_as", "_to_copy", "convert_element_type", "to_copy")
def to(ctx, input, *args, dtype=None, **_):
    # Devices and memory formats have no meaning in ONNX; only the element type counts, and the example output has it.
    return ctx.cast(input, ctx.fake.dtype)


@op(
    "clone",
    "contiguous",
    "detach",
    "alias",
    "requires_grad",
    "lift_fresh_copy",
    "cpu",
    "cuda",
    "data",
    "positive",
    "fill_diagonal",
)
def identity(ctx, input, *args, **kwargs):
    return input


@op("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def dropout(ctx, input, p=0.5, training=True, inplace=False, train=None):
    if (training if train is None else train) and p:
        raise Unsupported("dropout is random in training mode; call .eval() on the model first", "FX405")
    return input


@module(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
def dropout_module(ctx, m, input):
    return dropout(ctx, input, m.p, m.training)


@named("torchvision.ops.stochastic_depth.stochastic_depth")
def stochastic_depth(ctx, input, p, mode, training=True):
    return dropout(ctx, input, p, training)


@module(nn.Identity)
def identity_module(ctx, m, input, *args, **kwargs):
    return input
