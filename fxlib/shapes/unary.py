"""Shape rules of elementwise operators of one tensor, and of the modules that apply them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fxlib.shapes.pointwise import _ODD, _float_of, elementwise, numeric, same
from fxlib.shapes.table import function, method, module
from fxlib.shapes.tensor_meta import TensorMeta

Meta = TensorMeta


# The dtype is kept ---------------------------------------------------------------------------------------------------


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


# Modules -------------------------------------------------------------------------------------------------------------


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
