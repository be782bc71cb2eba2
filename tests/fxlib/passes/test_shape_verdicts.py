"""Rules never accept calls that torch rejects: every operator with a rule, on every dtype and a few ranks."""

import operator

import pytest
import torch
import torch.nn.functional as F

from fxlib.shapes import ShapeError, TensorMeta, clear, infer, map_values
from fxlib.shapes.kernel import by_kernel

DTYPES = [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64]
UNARY = [
    *[
        getattr(torch, n)
        for n in [
            "relu",
            "neg",
            "sign",
            "square",
            "round",
            "floor",
            "ceil",
            "trunc",
            "abs",
            "exp",
            "sqrt",
            "sigmoid",
            "tanh",
            "logical_not",
            "isnan",
            "bitwise_not",
            "mean",
            "sum",
            "amax",
            "argmax",
            "var",
            "std",
            "max",
            "cumsum",
            "logsumexp",
            "prod",
            "all",
        ]
    ],
    F.relu6,
    F.gelu,
    F.silu,
    F.hardswish,
    F.leaky_relu,
    F.dropout,
    F.softplus,
    F.elu,
    F.selu,
    F.logsigmoid,
    operator.neg,
    operator.invert,
    operator.abs,
    operator.pos,
    torch.clone,
    torch.zeros_like,
    torch.flatten,
    torch.tril,
]
BINARY = [
    *[
        getattr(operator, n)
        for n in [
            "add",
            "sub",
            "mul",
            "truediv",
            "floordiv",
            "mod",
            "pow",
            "and_",
            "or_",
            "xor",
            "eq",
            "lt",
            "iadd",
            "isub",
            "imul",
            "itruediv",
            "ipow",
            "iand",
            "matmul",
        ]
    ],
    *[
        getattr(torch, n)
        for n in [
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "maximum",
            "minimum",
            "remainder",
            "floor_divide",
            "atan2",
            "logical_and",
            "bitwise_and",
            "mm",
            "bmm",
            "matmul",
            "fmod",
        ]
    ],
    lambda a, b: torch.cat([a, b]),
    lambda a, b: torch.stack([a, b]),
    F.linear,
]
NEEDS_DIM = {torch.amax: (0,), torch.cumsum: (0,), torch.logsumexp: (0,), torch.all: (0,)}


def described(value):
    return repr(map_values(value, lambda v: (repr(v), str(v.device)) if isinstance(v, TensorMeta) else v))


def verdict(call):
    try:
        return described(call())
    except ShapeError:
        return "refused"


def compare(function, *args):
    clear()
    metas = tuple(TensorMeta.of(a) if isinstance(a, torch.Tensor) else a for a in args)
    expected = verdict(lambda: by_kernel(function, metas, {}, fake=True))
    assert verdict(lambda: infer("call_function", function, metas)) == expected, metas


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_unary(function):
    for dtype in DTYPES:
        for shape in ((2, 3), ()):
            compare(function, torch.empty(shape, dtype=dtype), *NEEDS_DIM.get(function, ()))


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary(function):
    for first in DTYPES:
        for second in DTYPES:
            compare(function, torch.empty(3, 3, dtype=first), torch.empty(3, 3, dtype=second))
        compare(function, torch.empty(3, 3, dtype=first), torch.empty(2, 3, 3, dtype=first))
        compare(function, torch.empty(2, 3, 3, dtype=first), torch.empty(2, 3, 3, dtype=first))
        compare(function, torch.empty(3, dtype=first), torch.empty(3, dtype=first))
        compare(function, torch.empty(3, 3, dtype=first), torch.empty((), dtype=first))
        for scalar in (True, 2, 0.5):
            if function not in (torch.mm, torch.bmm, torch.matmul, operator.matmul):
                compare(function, torch.empty(3, 3, dtype=first), scalar)
