"""Forms of calls that ONNX or an engine computes otherwise than PyTorch, if they are converted as they are:
`(name, call, inputs of the example, other inputs)`. All are one model in a test."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from .cases import I64, t


class Form(NamedTuple):
    name: str
    call: Callable[..., Any]
    example: tuple
    other: tuple


FORMS: list[Form] = []


def form(name: str, call: Callable[..., Any], *inputs: Any, other: tuple = ()) -> None:
    FORMS.append(Form(name, call, inputs, other or inputs))


INF = math.inf
_X, _SCALAR = t(3, 4), torch.tensor(0.7)
_V, _M, _B = t(4), t(4, 3), t(2, 4, 3)
_I = torch.tensor([[0, 2]])

# activations and arithmetic
form("softplus threshold", lambda x: (F.softplus(x, 1, 1.0), F.softplus(x, 2, 0.5)), _X * 0.1, other=(_X * 4,))
form("clamp of infinity", lambda x: (x.clamp(min=0), x.clamp(max=0)), _X, other=(_X * INF,))
form("clamp of half infinity", lambda x: x.clamp(min=0), _X.half(), other=((_X * INF).half(),))
form("where method", lambda x: x.where(x > 0, x * 2), _X)
form("0-d", lambda x: (x.max(0)[0], x.softmax(0), x.topk(1)[0], x.cumsum(0), x.sort(0)[0], x.argmax(0)), _SCALAR)

# linear algebra
form("matrix.T @ vector", lambda v, m: (m.T @ v, torch.mv(m.t(), v), F.linear(m.T, v)), _V, _M)
form("matrices.mT @ vector", lambda v, m: m.mT @ v, _V, _B)
form("addbmm", lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), t(3, 5), t(2, 3, 4), t(2, 4, 5))
form("addbmm of one", lambda x, a, b: torch.addbmm(x, a, b), t(3, 5), t(1, 3, 4), t(1, 4, 5))
form("addmm without input", lambda x, a, b: torch.addmm(x * math.nan, a, b, beta=0), t(3, 5), t(3, 4), t(4, 5))
form("norm of 0-d", lambda x: (x.norm(), torch.linalg.vector_norm(x), x.norm(1)), _SCALAR, other=(-_SCALAR,))
form("matrix norms", lambda x: (torch.linalg.norm(x, 2), torch.linalg.norm(x, 1), torch.linalg.norm(x),
                                torch.linalg.norm(x, 1, dim=(0, 1)), torch.linalg.norm(x, 1, dim=1)), _X)  # fmt: skip
form("int8 product", lambda a, b: (a @ b).float(),
     torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.int8),
     other=(torch.full((2, 3), 50, dtype=torch.int8), torch.full((3, 2), 20, dtype=torch.int8)))  # fmt: skip

# indexing and writing
form(
    "index_fill negative",
    lambda x, i: x.index_fill(0, i, 9.0),
    _X,
    torch.tensor([1, 0]),
    other=(_X, torch.tensor([-1, 0])),
)
form("fill_diagonal_", lambda x: (x * 1).fill_diagonal_(7.0), _X)
form("take_along_dim broadcasts", lambda x, i: (x.take_along_dim(i, 1), torch.take_along_dim(x, i)), _X, _I)
form("take_along_dim of one row", lambda x, i: torch.take_along_dim(x, i, dim=1), t(1, 4), t(3, 2, dtype=I64, low=0))
form("gather of fewer rows", lambda x, i: x.gather(1, i), _X, _I)
form("scatter a larger source", lambda x, i, v: (x.scatter(1, i, v), x.scatter_add(1, i, v)), _X, _I, t(2, 5))
form("a list of bools", lambda x: (x[[True, False, True]], x[:, [True, False, True, True]]), _X)
form("lists", lambda x: (x[[-1, 0]], x[:, [[0, 1], [1, 0]]]), _X)
form("a new dimension after indices", lambda x, i: (x[i, None], x[i, :, None], x[None, i]), t(4, 2, 2), _I)
form(
    "a new dimension after two",
    lambda x, i, j: (x[i, j, None], x[i, 1, None, j]),
    t(4, 4, 3),
    _V.long(),
    _V.long().abs(),
)
form("named results", lambda x: (x.max(1).values, x.min(0).indices, x.sort().values + 1, x.topk(2).indices), _X)
form("stable sort", lambda x: (x.sort(dim=1, stable=True)[1], x.argsort(dim=1, stable=True)),
     torch.arange(600.0).view(2, 300), other=(t(2, 300, dtype=I64, low=0, high=5).float(),))  # fmt: skip
form("range", lambda x: (torch.range(1, 4) + x, torch.range(0, 5, 2)), _X)

# images
_IMAGE = t(1, 1, 4, 4)
form(
    "pools drop a window", lambda x: (F.max_pool2d(x, 2, 3, 1, ceil_mode=True), F.avg_pool2d(x, 2, 3, 1, True)), _IMAGE
)
form("pool with indices", lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True, return_indices=True), _IMAGE)
form("pool with two results", lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), t(1, 2, 6, 6))
form("pixel_shuffle", lambda x, y: (F.pixel_shuffle(x, 2), F.pixel_shuffle(y, 2)), t(8, 3, 3), t(2, 1, 8, 3, 3))
form("nearest at ties", lambda x: tuple(F.interpolate(x, scale_factor=s, mode=m) for s in (1.1, 1.7, (1.3, 0.7), 2.0)
                                        for m in ("nearest", "nearest-exact")), t(1, 2, 7, 5))  # fmt: skip
form(
    "bicubic of bytes",
    lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"),
    t(1, 3, 6, 5, dtype=torch.uint8, low=0, high=99),
)
form("response norm of lines", lambda x: F.local_response_norm(x, 3), t(2, 6, 5))

# normalization, attention, embeddings
form("rms_norm of half", lambda x: F.rms_norm(x, (8,)), t(2, 8).half(), other=(t(2, 8).half() * 0.01,))
form("whole weight norm", lambda v, g: torch._weight_norm(v, g, -1), t(4, 3), t(1, 1))
form("a query without keys", lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), t(2, 3, 5, 8),
     torch.zeros(5, 5), other=(t(2, 3, 5, 8), torch.full((5, 5), -INF).triu(0)))  # fmt: skip
form("last offset", lambda i, o, w: F.embedding_bag(i, w, o, mode="mean", include_last_offset=True),
     torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2, 2, 4]), t(7, 3),
     other=(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 0, 1, 3]), t(7, 3)))  # fmt: skip
form("bfloat16 softmax", lambda x: x.softmax(1), _X.bfloat16())
form("double gelu", lambda x: F.gelu(x), _X.double())


def joined(forms: list[Form]) -> nn.Module:
    """The calls of some forms as one model, which takes their inputs one after the other."""
    names = iter(f"x{i}" for i in range(sum(len(each.example) for each in forms)))
    given = [", ".join(next(names) for _ in each.example) for each in forms]
    made = ", ".join(f"calls[{i}]({each})" for i, each in enumerate(given))
    space: dict[str, Any] = {"calls": [each.call for each in forms]}
    exec(f"def forward(self, {', '.join(given)}): return ({made},)", space)  # a trace needs a signature
    return type("Forms", (nn.Module,), {"forward": space["forward"]})().eval()
