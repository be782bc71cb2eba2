"""Shape rules of elementwise operators of several tensors or numbers, and of those in place."""

from __future__ import annotations

from typing import Any

import torch

from fxlib.shapes.pointwise import _ODD, _category, _float_of, broadcast, elementwise, inplace, numeric, promote, same
from fxlib.shapes.table import METHODS, function, method, python
from fxlib.shapes.tensor_meta import TensorMeta

Meta = TensorMeta


# A new tensor --------------------------------------------------------------------------------------------------------


@python("add", "sub", "mul", "mod", "floordiv", "pow")
def operator_binary(a: Any, b: Any) -> Meta | None:
    return numeric(a, b)


@python("and_", "or_", "xor")
@function("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(input: Any, other: Any) -> Meta | None:
    for x in (input, other):
        if type(x) is float or (isinstance(x, Meta) and (x.dtype.is_floating_point or x.dtype.is_complex)):
            return None
    return elementwise(input, other)


@function("add", "sub", "subtract", "mul", "multiply", "rsub")
def arithmetic(input: Any, other: Any, *, alpha: Any = 1) -> Meta | None:
    return numeric(input, other) if type(alpha) in (int, float) and not _needs_float(input, other, alpha) else None


def _needs_float(a: Any, b: Any, alpha: Any) -> bool:
    return type(alpha) is float and not any(isinstance(x, Meta) and x.dtype.is_floating_point for x in (a, b))


@function(
    "remainder",
    "fmod",
    "floor_divide",
    "pow",
)
def binary(input: Any, other: Any) -> Meta | None:
    return numeric(input, other)


@function("maximum", "minimum", "fmax", "fmin")
def two_tensors(input: Any, other: Any) -> Meta | None:
    return numeric(input, other) if isinstance(input, Meta) and isinstance(other, Meta) else None


@function("atan2", "arctan2")
def atan2(input: Any, other: Any) -> Meta | None:
    return true_divide(input, other) if isinstance(input, Meta) and isinstance(other, Meta) else None


@function("logical_and", "logical_or", "logical_xor")
def logical(input: Any, other: Any) -> Meta | None:
    return compare(input, other) if isinstance(input, Meta) and isinstance(other, Meta) else None


METHODS["__rpow__"] = METHODS["__rsub__"] = operator_binary


@python("truediv")
@function("true_divide")
def true_divide(input: Any, other: Any) -> Meta | None:
    return numeric(input, other, dtype=_float_of(promote((input, other))))


@function("div", "divide")
def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Meta | None:
    return true_divide(input, other) if rounding_mode is None else numeric(input, other)


@python("eq", "ne", "lt", "le", "gt", "ge")
@function(
    "eq",
    "ne",
    "not_equal",
    "lt",
    "less",
    "le",
    "less_equal",
    "gt",
    "greater",
    "ge",
    "greater_equal",
    "isclose",
)
def compare(input: Any, other: Any) -> Meta | None:
    if any(isinstance(x, complex) or (isinstance(x, Meta) and x.dtype.is_complex) for x in (input, other)):
        return None
    return elementwise(input, other, dtype=torch.bool)


@python("neg", "pos", "abs")
def operator_unary(a: Meta) -> Meta | None:
    return None if a.dtype in _ODD else same(a)


@python("invert", "inv")
@function("bitwise_not")
def invert(input: Meta) -> Meta | None:
    return None if input.dtype.is_floating_point or input.dtype.is_complex else same(input)


@function("where")
def where(condition: Meta, input: Any = None, other: Any = None) -> Meta | None:
    if input is None or other is None:
        return None
    dtype = promote((input, other))
    return None if dtype is None else elementwise(condition, input, other, dtype=dtype)


@method("where")
def where_method(input: Meta, condition: Meta, other: Any) -> Meta | None:
    return where(condition, input, other)


@function("masked_fill")
def masked_fill(input: Meta, mask: Meta, value: Any) -> Meta | None:
    return elementwise(input, mask, dtype=input.dtype) if input.shape else None


@function("addcmul", "addcdiv", "lerp")
def ternary(input: Meta, a: Any, b: Any, *, value: Any = 1) -> Meta | None:
    if not all(isinstance(x, Meta) and x.dtype is input.dtype for x in (input, a)) or not input.dtype.is_floating_point:
        return None
    return elementwise(input, a, b)


# In place: the first argument is the result --------------------------------------------------------------------------


def _inplace_binary(a: Any, b: Any) -> Meta | None:
    if not isinstance(a, Meta) or (isinstance(b, Meta) and broadcast(tuple(a.shape), tuple(b.shape)) != tuple(a.shape)):
        return None
    dtype = promote((a, b))
    ordinary = a.dtype.is_floating_point and type(b) in (int, float, Meta)
    return a if ordinary and dtype is not None and _category(dtype) == _category(a.dtype) else None


for _name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"):
    python(_name)(_inplace_binary)
for _name in ("add_", "sub_", "mul_", "div_", "pow_"):
    method(_name)(_inplace_binary)
function(
    "relu_",
    "relu6_",
    "hardswish_",
    "hardtanh_",
    "elu_",
    "selu_",
    "celu_",
    "leaky_relu_",
    "silu_",
    "sigmoid_",
    "tanh_",
    "exp_",
    "sqrt_",
    "rsqrt_",
    "neg_",
    "clamp_",
    "clamp_min_",
    "clamp_max_",
    "zero_",
    "fill_",
    "dropout_",
    "threshold_",
    "normal_",
    "uniform_",
)(inplace)
method("contiguous_", "requires_grad_", "uniform_", "normal_", "zero_", "fill_")(inplace)
