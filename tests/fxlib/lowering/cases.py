"""Forms of operators that the converters are proven on: `(operator, form, function, inputs, dynamic dimensions)`.

`docs/operators.md` is generated from this table and the registry.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Case(NamedTuple):
    operator: str
    form: str
    call: Any
    inputs: tuple
    dynamic: bool = True
    tolerance: float = 2e-5


def t(
    *shape: int, dtype: torch.dtype = torch.float32, low: int = -3, high: int = 4, positive: bool = False
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) * 7 + len(shape))
    if dtype.is_floating_point:
        value = torch.randn(*shape, generator=generator, dtype=torch.float32).to(dtype)
        return value.abs() + 0.1 if positive else value
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    return torch.randint(1 if positive else low, high, shape, generator=generator, dtype=dtype)


I64, F16, BOOL = torch.int64, torch.float16, torch.bool
CASES: list[Case] = []


def case(name: str, form: str, call: Callable, *inputs: Any, dynamic: bool = True, tolerance: float = 2e-5) -> None:
    CASES.append(Case(name, form, call, inputs, dynamic, tolerance))


def module(
    cls: type, *args: Any, shape: tuple = (2, 4, 8, 8), form: str | None = None, dynamic: bool = True, **kwargs: Any
) -> None:
    torch.manual_seed(0)
    made = cls(*args, **kwargs).eval()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    shown = ", ".join([*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())])
    case(cls.__name__, form or f"nn.{cls.__name__}({shown})", made, t(*shape), dynamic=dynamic)


# arithmetic
for _name, _fn in {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}.items():
    case(_name, "tensor, tensor", _fn, t(2, 3), t(2, 3))
    case(_name, "broadcast", _fn, t(2, 3, 4), t(3, 1), dynamic=False)
    case(_name, "tensor, number", lambda x, f=_fn: f(x, 2.5), t(2, 3))
    case(_name, "number, tensor", lambda x, f=_fn: f(2, x), t(2, 3, positive=True))
    case(_name, "int64, float32", _fn, t(2, 3, dtype=I64), t(2, 3, positive=True))
    case(_name, "int64, float number", lambda x, f=_fn: f(x, 0.5), t(2, 3, dtype=I64))
case("add", "alpha", lambda x, y: torch.add(x, y, alpha=2), t(2, 3), t(2, 3))
case("add", "bool", operator.add, t(2, 3, dtype=BOOL), t(2, 3, dtype=BOOL))
case("add", "method", lambda x, y: x.add(y), t(2, 3), t(2, 3))
case("add", "in place", lambda x, y: (x * 1).add_(y), t(2, 3), t(2, 3))
case("sub", "alpha", lambda x, y: torch.sub(x, y, alpha=3), t(2, 3), t(2, 3))
case("rsub", "number", lambda x: 1 - x, t(2, 3))
case("div", "int64", operator.truediv, t(2, 3, dtype=I64), t(2, 3, dtype=I64, positive=True))
case("div", "rounding_mode=floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), t(2, 9), t(2, 9, positive=True))
case("div", "rounding_mode=trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), t(2, 9), t(2, 9, positive=True))
# quotients that round to a whole number, zeros, infinities, and many times the divisor
_NUMBERS = [6.6, -6.6, 1.0, -1.0, 0.0, 3e6, -3e6, math.inf, 2.0, -2.0, 0.3, 5.0]
_DIVISORS = [0.2, 0.2, 0.1, 0.1, -2.0, 2 * math.pi, 2 * math.pi, 2.0, 0.0, math.inf, -0.1, -math.inf]
for _fn in (torch.floor_divide, torch.remainder, torch.fmod):
    case(_fn.__name__, "beside whole numbers", _fn, torch.tensor([_NUMBERS]), torch.tensor([_DIVISORS]))
case("floor_divide", "number beside whole numbers", lambda x: x // 0.2, torch.tensor([_NUMBERS]))
case("floor_divide", "float", operator.floordiv, t(2, 9), t(2, 9, positive=True))
case("floor_divide", "int64", operator.floordiv, t(4, 9, dtype=I64, low=-9, high=9), t(4, 9, dtype=I64, positive=True))
case("floor_divide", "int64 by negative", lambda x: x // -2, t(4, 9, dtype=I64, low=-9, high=9))
case("remainder", "float", operator.mod, t(2, 9), t(2, 9, positive=True))
case("remainder", "int64", operator.mod, t(4, 9, dtype=I64, low=-9, high=9), t(4, 9, dtype=I64, positive=True))
case("fmod", "float", torch.fmod, t(2, 9), t(2, 9, positive=True))
case("pow", "square", lambda x: x**2, t(2, 3))
case("pow", "number", lambda x: x**1.5, t(2, 3, positive=True))
case("pow", "tensor", operator.pow, t(2, 3, positive=True), t(2, 3))
case("pow", "half", lambda x: x**0.5, t(2, 3, positive=True))
case("maximum", "tensors", torch.maximum, t(2, 3), t(2, 3))
case("minimum", "tensors", torch.minimum, t(2, 3), t(2, 3))
case("clamp", "both", lambda x: x.clamp(-0.5, 0.5), t(2, 3))
case("clamp", "min", lambda x: torch.clamp(x, min=0), t(2, 3))
case("clamp", "max", lambda x: x.clamp(max=0.1), t(2, 3))
case("clamp", "tensors", lambda x, y: x.clamp(y, y + 1), t(2, 3), t(2, 3))
case("clamp_min", "number", lambda x: x.clamp_min(0.1), t(2, 3))
case("lerp", "number", lambda x, y: torch.lerp(x, y, 0.3), t(2, 3), t(2, 3))
case("addcmul", "value", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), t(2, 3), t(2, 3), t(2, 3))
case("addcdiv", "value", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), t(2, 3), t(2, 3), t(2, 3, positive=True))
for _name in (
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "abs",
    "neg",
    "floor",
    "ceil",
    "sign",
    "reciprocal",
    "rsqrt",
    "square",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "exp2",
    "atan",
    "asinh",
    "trunc",
    "round",
):
    case(
        _name,
        f"torch.{_name}",
        getattr(torch, _name),
        t(2, 5, positive=_name in ("sqrt", "log", "rsqrt", "log2", "log10", "log1p")),
    )
    case(_name, f"x.{_name}()", lambda x, n=_name: getattr(x, n)(), t(2, 5, positive=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    case(_name, "tensors", getattr(operator, _name), t(2, 5, dtype=I64), t(2, 5, dtype=I64))
    case(_name, "number", lambda x, n=_name: getattr(operator, n)(x, 0.5), t(2, 5))
for _name in ("logical_and", "logical_or", "logical_xor"):
    case(_name, "bool", getattr(torch, _name), t(2, 5, dtype=BOOL), t(2, 5, dtype=BOOL))
case("bitwise_and", "bool &", operator.and_, t(2, 5, dtype=BOOL), t(5, dtype=BOOL), dynamic=False)
case("bitwise_or", "int64 |", operator.or_, t(2, 5, dtype=I64, positive=True), t(2, 5, dtype=I64, positive=True))
case("bitwise_not", "bool ~", operator.invert, t(2, 5, dtype=BOOL))
case("logical_not", "bool", torch.logical_not, t(2, 5, dtype=BOOL))
case("isnan", "float", torch.isnan, t(2, 5))
case("where", "tensors", torch.where, t(2, 5, dtype=BOOL), t(2, 5), t(2, 5))
case("where", "method", lambda x: x.where(x > 0, x * 2), t(2, 5))
case("where", "number", lambda c, x: torch.where(c, x, 0.0), t(2, 5, dtype=BOOL), t(2, 5))
case("masked_fill", "number", lambda x, m: x.masked_fill(m, -1e4), t(2, 5), t(2, 5, dtype=BOOL))
case("to", "dtype", lambda x: x.to(torch.int64), t(2, 5))
case("to", "float()", lambda x: x.float() + 0.5, t(2, 5, dtype=I64))
case("to", "like", lambda x, y: x.to(y), t(2, 5, dtype=I64), t(2, 5))
case("type_as", "tensor", lambda x, y: x.type_as(y), t(2, 5, dtype=I64), t(2, 5))
case("half", "fp16 arithmetic", lambda x: (x.half() * 2 + 1).float(), t(2, 5), tolerance=2e-3)

# activations
for _cls in (
    nn.ReLU,
    nn.ReLU6,
    nn.Hardsigmoid,
    nn.Hardswish,
    nn.SiLU,
    nn.Mish,
    nn.SELU,
    nn.Softsign,
    nn.LogSigmoid,
    nn.Tanhshrink,
    nn.Hardtanh,
    nn.ELU,
    nn.CELU,
    nn.LeakyReLU,
    nn.Softplus,
    nn.GELU,
    nn.Tanh,
    nn.Sigmoid,
    nn.PReLU,
    nn.Identity,
    nn.Dropout,
):
    module(_cls)
module(nn.GELU, approximate="tanh")
module(nn.Softmax, dim=1)
module(nn.LogSoftmax, dim=-1)
module(nn.GLU, dim=1)
module(nn.Softmax2d)
module(nn.PReLU, 4)
module(nn.Threshold, 0.1, 20.0)
module(nn.Softplus, beta=2.0)
for _name in (
    "relu",
    "relu6",
    "silu",
    "gelu",
    "hardswish",
    "hardsigmoid",
    "elu",
    "selu",
    "leaky_relu",
    "softplus",
    "logsigmoid",
    "mish",
):
    case(_name, f"F.{_name}", getattr(F, _name), t(2, 5))
case("softmax", "F.softmax dim", lambda x: F.softmax(x, dim=-1), t(2, 5))
case("softmax", "x.softmax(dim, dtype)", lambda x: x.softmax(-1, dtype=torch.float32), t(2, 5))
case("log_softmax", "F", lambda x: F.log_softmax(x, dim=1), t(2, 5))
case("glu", "F", lambda x: F.glu(x, -1), t(2, 6))
case("relu", "in place", lambda x: F.relu(x + 1, inplace=True) * 2, t(2, 5))

# convolution
module(nn.Conv2d, 4, 6, 3)
module(nn.Conv2d, 4, 6, 3, stride=2, padding=1, bias=False)
module(nn.Conv2d, 4, 8, (3, 1), padding=(1, 0), dilation=(2, 1), groups=2)
module(nn.Conv2d, 4, 4, 3, groups=4, padding="same")
module(nn.Conv2d, 4, 4, 4, padding="same")
module(nn.Conv2d, 4, 4, 3, padding=1, padding_mode="reflect")
module(nn.Conv2d, 4, 4, 3, padding=1, padding_mode="replicate")
module(nn.Conv2d, 4, 4, 3, padding=1, padding_mode="circular")
module(nn.Conv1d, 4, 6, 3, padding=1, shape=(2, 4, 16))
module(nn.Conv3d, 2, 3, 3, padding=1, shape=(2, 2, 5, 6, 6))
module(nn.ConvTranspose2d, 4, 6, 2, stride=2)
module(nn.ConvTranspose2d, 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
module(nn.ConvTranspose1d, 4, 6, 3, shape=(2, 4, 9))
module(nn.ConvTranspose3d, 2, 3, 2, stride=2, shape=(2, 2, 4, 4, 4))
case("conv2d", "F.conv2d", lambda x, w: F.conv2d(x, w, padding=1), t(2, 4, 8, 8), t(3, 4, 3, 3), dynamic=False)
case("conv2d", "no batch", lambda x, w: F.conv2d(x, w), t(4, 8, 8), t(3, 4, 3, 3), dynamic=False)

# linear algebra
module(nn.Linear, 8, 5, shape=(3, 8))
module(nn.Linear, 8, 5, bias=False, shape=(2, 3, 8))
module(nn.Linear, 8, 5, shape=(8,), dynamic=False)
case("Bilinear", "nn.Bilinear", nn.Bilinear(4, 5, 3).eval(), t(2, 4), t(2, 5))
case("linear", "F.linear", F.linear, t(2, 3, 8), t(5, 8), t(5), dynamic=False)
case("matmul", "batched", torch.matmul, t(2, 3, 4), t(2, 4, 5))
case("matmul", "@ broadcast", operator.matmul, t(2, 7, 3, 4), t(4, 5), dynamic=False)
case("bmm", "torch.bmm", torch.bmm, t(2, 3, 4), t(2, 4, 5))
case("mm", "torch.mm", torch.mm, t(2, 4), t(4, 5), dynamic=False)
case(
    "addmm",
    "beta, alpha",
    lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
    t(5),
    t(2, 4),
    t(4, 5),
    dynamic=False,
)
case(
    "baddbmm",
    "beta, alpha",
    lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2),
    t(2, 3, 5),
    t(2, 3, 4),
    t(2, 4, 5),
)
case("einsum", "attention", lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), t(2, 3, 4, 5), t(2, 3, 4, 5))
case("outer", "vectors", torch.outer, t(4), t(5), dynamic=False)

# normalization
module(nn.BatchNorm2d, 4)
module(nn.BatchNorm1d, 4, shape=(3, 4))
module(nn.BatchNorm3d, 2, shape=(2, 2, 3, 4, 4))
module(nn.BatchNorm2d, 4, affine=False)
module(nn.LayerNorm, 8)
module(nn.LayerNorm, (8, 8), elementwise_affine=False)
module(nn.GroupNorm, 2, 4)
module(nn.InstanceNorm2d, 4)
module(nn.InstanceNorm2d, 4, shape=(4, 8, 8), form="one image without a batch", dynamic=False)
module(nn.InstanceNorm1d, 4, affine=True, shape=(4, 8), form="one sequence without a batch", dynamic=False)
module(nn.InstanceNorm2d, 4, affine=True, track_running_stats=True)
module(nn.RMSNorm, 8)
module(nn.LocalResponseNorm, 3)
case("layer_norm", "F.layer_norm", lambda x: F.layer_norm(x, (8,)), t(2, 3, 8))
case("group_norm", "F.group_norm", lambda x: F.group_norm(x, 2), t(2, 4, 8))
case("normalize", "F.normalize", lambda x: F.normalize(x, dim=-1), t(2, 4, 8))
case(
    "batch_norm",
    "F.batch_norm",
    lambda x, m, v: F.batch_norm(x, m, v),
    t(2, 4, 3, 3),
    t(4),
    t(4, positive=True),
    dynamic=False,
)

# pooling
module(nn.MaxPool2d, 2)
module(nn.MaxPool2d, 3, stride=2, padding=1)
module(nn.MaxPool2d, 3, stride=2, ceil_mode=True, shape=(2, 4, 9, 10))
module(nn.MaxPool1d, 2, shape=(2, 4, 9))
module(nn.AvgPool2d, 2)
module(nn.AvgPool2d, 3, stride=1, padding=1, count_include_pad=False)
module(nn.AvgPool1d, 3, shape=(2, 4, 9))
module(nn.AvgPool3d, 2, shape=(2, 2, 4, 4, 4))
module(nn.AdaptiveAvgPool2d, 1)
module(nn.AdaptiveAvgPool2d, (4, 2))
module(nn.AdaptiveAvgPool2d, (3, 5))
module(nn.AdaptiveAvgPool1d, 4, shape=(2, 4, 8))
module(nn.AdaptiveMaxPool2d, 1)
module(nn.AdaptiveMaxPool2d, 4)
case("max_pool2d", "F.max_pool2d", lambda x: F.max_pool2d(x, 2), t(2, 4, 8, 8))
case("avg_pool2d", "F.avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), t(2, 4, 8, 8))
case("adaptive_avg_pool2d", "F", lambda x: F.adaptive_avg_pool2d(x, (1, 1)), t(2, 4, 8, 8))

# reductions
for _name in ("sum", "mean", "amax", "amin", "logsumexp"):
    case(_name, "dim, keepdim", lambda x, n=_name: getattr(torch, n)(x, dim=-1, keepdim=True), t(2, 4, 8))
    case(_name, "dims", lambda x, n=_name: getattr(x, n)((1, 2)), t(2, 4, 8))
case("sum", "all", lambda x: x.sum(), t(2, 4, 8))
case("nansum", "dim", lambda x: torch.nansum(torch.where(x > 0.5, x, torch.nan), 1), t(2, 4, 8))
case("sum", "bool", lambda x: x.sum(-1), t(2, 4, dtype=BOOL))
case("mean", "positional", lambda x: x.mean([2, 3], True), t(2, 4, 8, 8))
case("prod", "dim", lambda x: x.prod(1), t(2, 4, 3))
case("max", "dim", lambda x: torch.max(x, 1), t(2, 7))
case("fill_diagonal", "value", lambda x: (x.mT + 1).fill_diagonal_(-math.inf), t(4, 3))
case("fill_diagonal", "three dimensions", lambda x: (x * 2).fill_diagonal_(7), t(3, 3, 3), dynamic=False)
case("eye", "of a size", lambda x: (torch.eye(x.shape[0]) @ x, torch.eye(x.shape[1], x.shape[0])), t(2, 4))
case("max", "dim, .values and .indices", lambda x: (torch.max(x, 1).values + 1, x.min(dim=1).indices), t(2, 7))
case("sort", ".values", lambda x: x.sort(dim=1).values * 2, t(2, 7))
case("topk", ".indices", lambda x: x.topk(3).indices + 1, t(2, 7))
case("T", "x.T, x.mT, x.H", lambda x: (x.T * 2, (x + 1).mT, x.H - 1), t(2, 7))
case("max", "all", lambda x: x.max(), t(2, 7))
case("max", "two tensors", torch.max, t(2, 7), t(2, 7))
case("min", "dim, keepdim", lambda x: x.min(dim=-1, keepdim=True)[0], t(2, 7))
case("argmax", "dim", lambda x: x.argmax(-1), t(2, 7))
case("argmin", "all", lambda x: x.argmin(), t(2, 7), dynamic=False)
case("var", "dim, unbiased", lambda x: x.var(-1), t(2, 7))
case("var", "biased, keepdim", lambda x: x.var(1, unbiased=False, keepdim=True), t(2, 7))
case("std", "dim", lambda x: torch.std(x, dim=-1, keepdim=True), t(2, 7))
case("var_mean", "correction", lambda x: torch.var_mean(x, dim=1, correction=0), t(2, 7))
case("norm", "2", lambda x: x.norm(dim=-1), t(2, 7))
case("norm", "torch.linalg.norm of vectors", lambda x: torch.linalg.norm(x, 1, dim=-1, keepdim=True), t(2, 7))
case(
    "norm", "torch.linalg.norm of all, fro", lambda x: (torch.linalg.norm(x), torch.linalg.norm(x, ord="fro")), t(2, 7)
)
case("norm", "torch.linalg.vector_norm", lambda x: torch.linalg.vector_norm(x=x, ord=math.inf, dim=(-2, -1)), t(2, 7))
case("norm", "of half in float", lambda x: torch.linalg.norm(x, dim=1, dtype=torch.float32), t(2, 7, dtype=F16) * 2e4)
case("diagonal", "torch.linalg.diagonal", lambda x: torch.linalg.diagonal(A=x, offset=1), t(2, 3, 4))
case("norm", "1", lambda x: torch.norm(x, p=1, dim=-1), t(2, 7))
case("any", "dim", lambda x: x.any(-1), t(2, 7, dtype=BOOL))
case("all", "dim", lambda x: x.all(-1), t(2, 7, dtype=BOOL))
case("cumsum", "dim", lambda x: x.cumsum(1), t(2, 7))
case("topk", "k", lambda x: x.topk(3), t(2, 7))
case("sort", "descending", lambda x: x.sort(descending=True), t(2, 7))
case("argsort", "dim", lambda x: x.argsort(-1), t(2, 7))

# shape
case("view", "sizes", lambda x: x.view(x.shape[0], -1), t(2, 3, 4))
case("view", "tuple, shape arithmetic", lambda x: x.view((x.size(0) * 3, 4)), t(2, 3, 4))
case("reshape", "torch.reshape", lambda x: torch.reshape(x, (-1, 4)), t(2, 3, 4))
case("flatten", "start", lambda x: torch.flatten(x, 1), t(2, 3, 4))
case("flatten", "method", lambda x: x.flatten(1, 2), t(2, 3, 4))
module(nn.Flatten)
module(nn.Unflatten, 1, (2, 2))
case("unflatten", "method", lambda x: x.unflatten(1, (2, 3)), t(2, 6, 4))
case("permute", "dims", lambda x: x.permute(0, 2, 1), t(2, 3, 4))
case("permute", "torch.permute", lambda x: torch.permute(x, (2, 0, 1)), t(2, 3, 4))
case("transpose", "dims", lambda x: x.transpose(-1, -2), t(2, 3, 4))
case("t", "x.t()", lambda x: x.t(), t(2, 3))
case("movedim", "dims", lambda x: x.movedim(1, -1), t(2, 3, 4))
case("unsqueeze", "negative", lambda x: x.unsqueeze(-1), t(2, 3))
case("squeeze", "dim", lambda x: x.squeeze(1), t(2, 1, 3))
case("squeeze", "all", lambda x: x.squeeze(), t(2, 1, 3, 1))
case("expand", "-1", lambda x: x.expand(-1, 4, 3), t(2, 1, 3))
case("expand", "new dimension", lambda x: x.expand(5, 2, 3), t(2, 3), dynamic=False)
case("expand_as", "tensor", lambda x, y: x.expand_as(y), t(2, 1), t(2, 5))
case("repeat", "sizes", lambda x: x.repeat(1, 2, 3), t(2, 3, 1))
case("tile", "dims", lambda x: torch.tile(x, (2, 1)), t(2, 3), dynamic=False)
case("repeat_interleave", "dim", lambda x: x.repeat_interleave(3, dim=1), t(2, 2, 3))
case("cat", "dim", lambda x, y: torch.cat([x, y], dim=1), t(2, 3), t(2, 4))
case("cat", "mixed dtypes", lambda x, y: torch.cat((x, y), -1), t(2, 3, dtype=I64), t(2, 4))
case("stack", "dim", lambda x, y: torch.stack((x, y), 1), t(2, 3), t(2, 3))
case("chunk", "uneven", lambda x: x.chunk(3, 1), t(2, 7))
case("split", "size", lambda x: torch.split(x, 3, dim=1), t(2, 7))
case("split", "sizes", lambda x: x.split([2, 5], -1)[1], t(2, 7))
case("unbind", "dim", lambda x: x.unbind(1), t(2, 3, 4))
case("flip", "dims", lambda x: x.flip(1, 2), t(2, 3, 4))
case("roll", "two", lambda x: torch.roll(x, (1, -2), (1, 2)), t(2, 5, 6))
case("pad", "constant", lambda x: F.pad(x, (1, 2, 3, 0), value=1.5), t(2, 3, 4))
case("pad", "negative", lambda x: F.pad(x, (-1, 1)), t(2, 3, 4))
case("pad", "reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), t(2, 3, 5, 6))
case("pad", "replicate", lambda x: F.pad(x, (1, 2), mode="replicate"), t(2, 3, 5))
module(nn.ZeroPad2d, (1, 2, 0, 1))
module(nn.ReflectionPad2d, 2)
module(nn.ReplicationPad2d, 1)
module(nn.PixelShuffle, 2)
module(nn.PixelUnshuffle, 2)
module(nn.ChannelShuffle, 2)
module(nn.Upsample, scale_factor=2)
module(nn.Upsample, scale_factor=2, mode="bilinear")
module(nn.Upsample, scale_factor=2, mode="bilinear", align_corners=True)
case("interpolate", "size, bilinear", lambda x: F.interpolate(x, size=(5, 11), mode="bilinear"), t(2, 3, 8, 8))
case(
    "interpolate",
    "size, bicubic",
    lambda x: F.interpolate(x, size=(12, 12), mode="bicubic"),
    t(2, 3, 8, 8),
    tolerance=1e-4,
)
for _name, _sizes in {
    "size": {"size": (5, 12)},
    "align_corners": {"size": (3, 20), "align_corners": True},
    "scale": {"scale_factor": (0.45, 1.3)},
}.items():
    for _mode in ("bilinear", "bicubic"):
        case(
            "interpolate",
            f"antialias, {_mode}, {_name}",
            lambda x, mode=_mode, sizes=_sizes: F.interpolate(x, mode=mode, antialias=True, **sizes),
            t(2, 3, 9, 15),
        )
case("interpolate", "scale, nearest", lambda x: F.interpolate(x, scale_factor=3), t(2, 3, 4, 4))
case(
    "interpolate",
    "to another's size",
    lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"),
    t(2, 3, 4, 4),
    t(2, 1, 9, 7),
)
case(
    "grid_sample",
    "bilinear",
    lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
    t(2, 3, 6, 6),
    t(2, 4, 4, 2),
)
case("unfold", "F.unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), t(2, 3, 6, 8))

case("unfold", "x.unfold(dim, size, step)", lambda x: x.unfold(1, 3, 2), t(2, 8, 3))

# indexing
case("getitem", "slices", lambda x: x[:, 1:, ::2], t(2, 5, 6))
case("getitem", "negative", lambda x: x[:, -2:], t(2, 5, 6))
case("getitem", "int", lambda x: x[:, 0], t(2, 5, 6))
case("getitem", "negative int", lambda x: x[..., -1], t(2, 5, 6))
case("getitem", "None, ellipsis", lambda x: x[:, None, ..., None], t(2, 5))
case("getitem", "int, slice, None", lambda x: x[:, 1, None, 2:4], t(2, 5, 6))
case("getitem", "tensor", lambda x, i: x[:, i], t(2, 5, 6), torch.tensor([0, 3]), dynamic=False)
case(
    "getitem",
    "two tensors",
    lambda x, i, j: x[i, j],
    t(4, 5, 6),
    torch.tensor([0, 3]),
    torch.tensor([1, 2]),
    dynamic=False,
)
case(
    "getitem",
    "two tensors after a slice",
    lambda x, i, j: x[:, i, j],
    t(4, 5, 6),
    torch.tensor([0, 3]),
    torch.tensor([1, 2]),
    dynamic=False,
)
# bools, nested lists, None and integers beside tensor indices, other dimensions between these
_ROWS, _GRID, _MATRIX = torch.tensor([1, 0, -1]), torch.tensor([[1, 0], [0, -2]]), t(4, 4, 5)
for _form, _fn in {
    "list of bools": lambda x, i: (x[:, [True, False, True, True]], x[[False, True, True, False]]),
    "list of lists": lambda x, i: (
        x[[[0, 2], [1, 3]]],
        x[[slice(None), [1, 2]]],
        x[:, [[0, 2], [1, 1]]],
        x[:, [[True, False, True, True, False]] * 4],
    ),
    "lists beside each other": lambda x, i: x[[0, 2, 1], [True, False, True, True], ..., None],
    "tensor, None": lambda x, i: (x[i, None], x[None, i], x[:, None, i], x[i, None, :, None]),
    "tensors, None": lambda x, i: (x[i, i, None], x[i, None, i], x[None, i, :, i], x[..., i, i]),
    "tensor, int": lambda x, i: (x[i, 1], x[1, i], x[:, 2, i], x[0, ..., i], x[i, 1, i]),
    "tensors around a slice": lambda x, i: (x[i, :, i], x[i, ::2, i, None]),
}.items():
    for _name, _index in {"": _ROWS, " of two dimensions": _GRID}.items():
        if not _name or "tensor" in _form:
            case("getitem", _form + _name, lambda x, i, f=_fn: f(x, i), _MATRIX, _index, dynamic=False)
case("getitem", "list", lambda x: x[:, [0, 2]], t(2, 5))
case("getitem", "up to a size", lambda x, y: x[:, : y.shape[1]], t(2, 5), t(2, 3))
case("select", "dim", lambda x: x.select(1, 2), t(2, 5, 6))
case("narrow", "dim", lambda x: x.narrow(1, 1, 2), t(2, 5, 6))
case("index_select", "dim", lambda x, i: x.index_select(1, i), t(2, 5, 6), torch.tensor([0, 3]), dynamic=False)
case("gather", "dim", lambda x, i: x.gather(1, i), t(2, 5), t(2, 3, dtype=I64, low=0, high=5))
case(
    "scatter",
    "source",
    lambda x, i, s: x.scatter(1, i, s),
    t(2, 5),
    torch.tensor([[0, 2], [1, 4]]),
    t(2, 2),
    dynamic=False,
)
case(
    "scatter_add",
    "source",
    lambda x, i, s: x.scatter_add(1, i, s),
    t(2, 5),
    torch.tensor([[0, 0], [1, 4]]),
    t(2, 2),
    dynamic=False,
)
case("select_scatter", "dim", lambda x, s: x.select_scatter(s, 1, 2), t(2, 5), t(2))
case("slice_scatter", "dim", lambda x, s: x.slice_scatter(s, 1, 1, 3), t(2, 5), t(2, 2))
case("index_fill", "dim", lambda x, i: x.index_fill(1, i, 9.0), t(2, 5), torch.tensor([0, 3]), dynamic=False)
case("Embedding", "nn.Embedding", nn.Embedding(10, 4).eval(), t(2, 3, dtype=I64, low=0, high=10))
case("embedding", "F.embedding", F.embedding, t(2, 3, dtype=I64, low=0, high=10), t(10, 4), dynamic=False)
case("one_hot", "classes", lambda x: F.one_hot(x, 6), t(2, 3, dtype=I64, low=0, high=6))
case("tril", "diagonal", lambda x: x.tril(-1), t(2, 4, 4))
case("triu", "square", torch.triu, t(2, 4, 4))

# torch's own functions take the tensors in another order than those of torch.nn.functional
_rows, _table = t(2, 3, dtype=I64, low=0, high=10), t(10, 4)
case("embedding", "torch.embedding", lambda w, x: torch.embedding(w, x), _table, _rows, dynamic=False)
case("embedding_bag", "torch.embedding_bag", lambda w, x, o: torch.embedding_bag(w, x, o)[0], _table,
     t(7, dtype=I64, low=0, high=10), torch.tensor([0, 3, 5]), dynamic=False)  # fmt: skip
_normed = (t(2, 4, 3, 3), t(4) + 1, t(4))  # an input, a weight and a bias
for _name in ("batch_norm", "instance_norm"):
    for _space, _fn in {"torch": getattr(torch, _name), "aten": getattr(torch.ops.aten, _name).default}.items():
        case(_name, f"{_space}.{_name}", lambda *each, f=_fn: f(*each, False, 0.1, 1e-5, False), *_normed, t(4),
             t(4, positive=True), dynamic=False)  # fmt: skip
        case(_name, f"{_space}.{_name}, without statistics", lambda *each, f=_fn: f(
            *each, None, None, True, 0.1, 1e-5, False), *_normed, dynamic=False)  # fmt: skip

# creation
case("zeros_like", "like", lambda x: x + torch.zeros_like(x), t(2, 3))
case("ones", "of a shape", lambda x: x + torch.ones(x.shape[1]), t(2, 3))
case("full", "dynamic", lambda x: torch.full((x.shape[0], 3), 2.5) + x, t(2, 3))
case("new_zeros", "sizes", lambda x: x.new_zeros(x.shape[0], 3) + x, t(2, 3))
case("arange", "of a size", lambda x: torch.arange(x.shape[1]) + x, t(2, 5))
case("arange", "dynamic", lambda x: torch.arange(x.shape[0]), t(4, 5))
case("meshgrid", "ij", lambda x, y: torch.meshgrid(x, y, indexing="ij"), t(3), t(4), dynamic=False)

# attention
_sdpa = F.scaled_dot_product_attention
case("scaled_dot_product_attention", "plain", _sdpa, t(2, 3, 5, 8), t(2, 3, 6, 8), t(2, 3, 6, 8))
case(
    "scaled_dot_product_attention", "causal", lambda q, k: _sdpa(q, k, k, is_causal=True), t(2, 3, 5, 8), t(2, 3, 5, 8)
)
case(
    "scaled_dot_product_attention",
    "bool mask",
    lambda q, m: _sdpa(q, q, q, attn_mask=m.tril().bool() | True),
    t(2, 3, 5, 8),
    torch.ones(5, 5),
    dynamic=False,
)
case(
    "scaled_dot_product_attention",
    "float mask, scale",
    lambda q, m: _sdpa(q, q, q, attn_mask=m, scale=0.2),
    t(2, 3, 5, 8),
    t(5, 5),
    dynamic=False,
)


class Attention(nn.Module):
    """MultiheadAttention inside a module, as it is used."""

    def __init__(self, batch_first: bool, weights: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.weights = weights

    def forward(self, x, y):
        result, weights = self.attend(x, y, y, need_weights=self.weights)
        return (result, weights) if self.weights else result


case("MultiheadAttention", "batch_first", Attention(True, False).eval(), t(2, 5, 8), t(2, 6, 8))
case(
    "MultiheadAttention",
    "sequence first, weights",
    Attention(False, True).eval(),
    t(5, 2, 8),
    t(6, 2, 8),
    dynamic=False,
)


def rotary(x, cos, sin):
    """Rotary position embedding, as language models write it."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


_angles = torch.outer(torch.arange(5.0), 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)
case("rotary arithmetic", "halves", rotary, t(2, 3, 5, 8), _angles.cos(), _angles.sin(), dynamic=False)
case("output", "dict and None", lambda x: {"a": x + 1, "b": (x, None, 3)}, t(2, 3))
case("math", "constants", lambda x: x * math.sqrt(2) + math.pi, t(2, 3))
case(
    "fake_quantize",
    "per tensor",
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    t(2, 9),
    dynamic=False,
)
