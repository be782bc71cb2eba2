"""Shape rules of elementwise operators: broadcasting, type promotion, in-place forms."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import nn

from fxlib.shapes.table import METHODS, function, method, module, python
from fxlib.shapes.tensor_meta import TensorMeta, contiguous_strides

__all__ = ["broadcast", "dense", "elementwise", "promote"]

Meta = TensorMeta


@lru_cache(maxsize=16384)
def dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements fill one block of memory without overlap, in any order of dimensions."""
    expected = 1
    for stride, size in sorted((st, si) for st, si in zip(strides, shape, strict=False) if si != 1):
        if stride != expected:
            return False
        expected *= size
    return True


@lru_cache(maxsize=16384)
def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The broadcast shape, or None where the two do not fit."""
    if a == b:
        return a
    if len(a) < len(b):
        a, b = b, a
    out = list(a)
    for i in range(1, len(b) + 1):
        x, y = a[-i], b[-i]
        if x == y or y == 1:
            continue
        if x != 1:
            return None
        out[-i] = y
    return tuple(out)


def _category(dtype: torch.dtype) -> int:
    if dtype is torch.bool:
        return 0
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else 1


def _number_dtype(value: object) -> torch.dtype | None:
    kind = type(value)
    if kind is bool:
        return torch.bool
    if kind is int:
        return torch.int64
    if kind is float:
        return torch.get_default_dtype()
    if kind is complex:
        return torch.complex128 if torch.get_default_dtype() is torch.float64 else torch.complex64
    return None


def promote(operands: tuple[Any, ...]) -> torch.dtype | None:
    """The dtype of an operation on tensors and numbers.

    Tensors with dimensions come first, then tensors without, then Python numbers; a later class counts only where its
    category (bool, integer, float, complex) is higher. Source: torch's documentation of tensor attributes.
    """
    classes: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Meta):
            dtype: torch.dtype | None = operand.dtype
            which = 0 if operand.shape else 1
        else:
            dtype = _number_dtype(operand)
            which = 2
            if dtype is None:
                return None
        known = classes[which]
        classes[which] = dtype if known is None or dtype is known else torch.promote_types(known, dtype)  # type: ignore[arg-type]
    result = classes[0]
    for dtype in classes[1:]:
        if dtype is not None and (result is None or _category(dtype) > _category(result)):
            result = dtype
    return result


def layout(operands: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[int, ...], torch.device] | None:
    """Shape, strides and device of an elementwise result; None where the order of memory needs torch's iterator."""
    first: Meta | None = None
    shape: tuple[int, ...] | None = None
    same = all_contiguous = True
    device = None
    for operand in operands:
        if not isinstance(operand, Meta):
            continue
        if device is None or (device.type == "cpu" and operand.device.type != "cpu"):
            device = operand.device
        elif operand.device != device and operand.shape:
            return None
        if first is None:
            first, shape = operand, operand.shape
        elif operand.shape or not first.shape:
            if not first.shape:
                first = operand
            elif operand.shape != first.shape or operand.strides != first.strides:
                same = False
            shape = broadcast(tuple(shape), tuple(operand.shape))  # type: ignore[arg-type]
            if shape is None:
                return None
        if not operand.contiguous:
            all_contiguous = False
    if first is None or shape is None or device is None:
        return None
    if all_contiguous:
        return shape, contiguous_strides(tuple(shape)), device
    if same and dense(tuple(first.shape), first.strides):
        return shape, first.strides, device
    return None


def elementwise(*operands: Any, dtype: torch.dtype | None = None) -> Meta | None:
    placed = layout(operands)
    if placed is None:
        return None
    dtype = promote(operands) if dtype is None else dtype
    return None if dtype is None else Meta(placed[0], dtype, placed[2], placed[1])


_ODD = (torch.bool, torch.complex64, torch.complex128, torch.complex32)


def numeric(*operands: Any, dtype: torch.dtype | None = None) -> Meta | None:
    """`elementwise` for arithmetic: bool and complex operands have rules of their own, which torch knows."""
    if any(type(x) is bool or (isinstance(x, Meta) and x.dtype in _ODD) for x in operands):
        return None
    return elementwise(*operands, dtype=dtype)


def _float_of(dtype: torch.dtype | None) -> torch.dtype | None:
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return dtype
    return torch.get_default_dtype()


def same(x: Meta, *_: Any, **__: Any) -> Meta | None:
    """The result has the shape, dtype and (dense) strides of the first argument."""
    if not isinstance(x, Meta):
        return None
    return x if x.contiguous or dense(tuple(x.shape), x.strides) else None


def inplace(x: Meta, *_: Any, **__: Any) -> Meta | None:
    return x if isinstance(x, Meta) else None


# Unary, dtype kept --------------------------------------------------------------------------------------------------


@function(
    "relu",
    "neg",
    "negative",
    "sign",
    "sgn",
    "square",
    "positive",
    "logical_not",
    "round",
    "floor",
    "ceil",
    "trunc",
    "fix",
    "clone",
    "nan_to_num",
)
def unary(input: Meta, inplace: bool = False, *, memory_format: Any = torch.preserve_format) -> Meta | None:
    if memory_format is not torch.preserve_format or input.dtype in _ODD:
        return None
    return same(input)


@function("logical_not")
def logical_not(input: Meta) -> Meta | None:
    return None if input.dtype.is_complex else elementwise(input, dtype=torch.bool)


@function("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit")
def predicate(input: Meta) -> Meta | None:
    return None if input.dtype.is_complex else elementwise(input, dtype=torch.bool)


@function("abs", "absolute")
def absolute(input: Meta) -> Meta | None:
    return None if input.dtype in _ODD else same(input)


@function(
    "relu6",
    "gelu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "softplus",
    "softsign",
    "logsigmoid",
    "tanhshrink",
    "hardshrink",
    "softshrink",
    "threshold",
    "dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "bernoulli",
)
def activation(input: Meta, *args: Any, **kwargs: Any) -> Meta | None:
    return same(input) if input.dtype.is_floating_point else None


@function("rrelu", "prelu")
def prelu(input: Meta, weight: Any = None, *args: Any, **kwargs: Any) -> Meta | None:
    return same(input) if input.contiguous else None


@function("softmax", "log_softmax", "softmin")
def softmax(input: Meta, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Meta | None:
    if not input.contiguous or dim is None or not -max(input.ndim, 1) <= dim < max(input.ndim, 1):
        return None
    if dtype is None and not input.dtype.is_floating_point:
        return None
    return Meta(input.shape, dtype or input.dtype, input.device, input.strides)


@method("softmax", "log_softmax")
def softmax_method(input: Meta, dim: int | None = None, dtype: torch.dtype | None = None) -> Meta | None:
    return softmax(input, dim, dtype=dtype)


@function(
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "sigmoid",
    "erf",
    "erfc",
    "reciprocal",
    "logit",
    "expit",
)
def float_unary(input: Meta) -> Meta | None:
    return numeric(input, dtype=_float_of(input.dtype))


@function("clamp", "clip", "clamp_min", "clamp_max")
def clamp(input: Meta, *bounds: Any, **named: Any) -> Meta | None:
    given = [b for b in (*bounds, *named.values()) if b is not None]
    return numeric(input, *given) if given else None


# Binary -------------------------------------------------------------------------------------------------------------


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


# In place: the first argument is the result -------------------------------------------------------------------------


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


# Modules ------------------------------------------------------------------------------------------------------------


@module(
    nn.ReLU,
    nn.ReLU6,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Hardswish,
    nn.Hardsigmoid,
    nn.Hardtanh,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.LeakyReLU,
    nn.Softplus,
    nn.Softsign,
    nn.LogSigmoid,
    nn.Tanhshrink,
    nn.Hardshrink,
    nn.Softshrink,
    nn.Threshold,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
    nn.Sigmoid,
    nn.Tanh,
)
def activation_module(module: nn.Module, input: Meta) -> Meta | None:
    return activation(input)


@module(nn.Identity)
def identity_module(module: nn.Module, input: Any) -> Any:
    return input


@module(nn.PReLU)
def prelu_module(module: nn.PReLU, input: Meta) -> Meta | None:
    return prelu(input) if input.dtype is module.weight.dtype else None


@module(nn.Softmax, nn.LogSoftmax, nn.Softmin)
def softmax_module(module: nn.Softmax, input: Meta) -> Meta | None:
    return softmax(input, module.dim)
