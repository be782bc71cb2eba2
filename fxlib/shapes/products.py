"""Shape rules of linear layers, embeddings and matrix products."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from fxlib.shapes.pointwise import broadcast
from fxlib.shapes.table import FUNCTIONS, function, module, only_function, python
from fxlib.shapes.tensor_meta import TensorMeta

Meta = TensorMeta


def linear(input: Meta, weight: Meta | torch.Tensor, bias: Meta | torch.Tensor | None = None) -> Meta | None:
    if (
        not input.ndim
        or len(weight.shape) != 2
        or input.shape[-1] != weight.shape[1]
        or input.dtype is not weight.dtype
    ):
        return None
    if not input.contiguous and input.ndim != 2:  # a matrix product is contiguous, whatever it was made from
        return None
    return Meta((*input.shape[:-1], weight.shape[0]), input.dtype, input.device)


FUNCTIONS[F.linear] = linear


@module(nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
def linear_module(module: nn.Linear, input: Meta) -> Meta | None:
    return linear(input, module.weight)


@module(nn.Embedding)
def embedding_module(module: nn.Embedding, input: Meta) -> Meta | None:
    if input.dtype not in (torch.int64, torch.int32) or module.max_norm is not None:
        return None
    return Meta((*input.shape, module.weight.shape[1]), module.weight.dtype, input.device) if input.contiguous else None


@only_function("embedding")
def embedding(
    input: Meta, weight: Meta, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> Meta | None:
    if (
        weight.ndim != 2
        or input.dtype not in (torch.int64, torch.int32)
        or max_norm is not None
        or not input.contiguous
    ):
        return None
    return Meta((*input.shape, weight.shape[1]), weight.dtype, input.device)


@function("mm")
def mm(input: Meta, mat2: Meta) -> Meta | None:
    return matmul(input, mat2) if input.ndim == mat2.ndim == 2 else None


@function("bmm")
def bmm(input: Meta, mat2: Meta) -> Meta | None:
    return matmul(input, mat2) if input.ndim == mat2.ndim == 3 and input.shape[0] == mat2.shape[0] else None


@python("matmul")
@function("matmul")
def matmul(input: Meta, other: Meta) -> Meta | None:
    if input.ndim < 2 or other.ndim < 2 or input.dtype is not other.dtype or input.device != other.device:
        return None
    if (
        not input.dtype.is_floating_point
        or input.shape[-1] != other.shape[-2]
        or (other.ndim > 2 and other.ndim != input.ndim)
    ):
        return None
    if other.ndim == 2 and input.ndim > 2 and not input.contiguous:
        return None
    lead = []
    for a, b in zip(input.shape[:-2], other.shape[:-2] if other.ndim > 2 else input.shape[:-2], strict=False):
        if a != b and 1 not in (a, b):
            return None
        lead.append(b if a == 1 else a)
    return Meta((*lead, input.shape[-2], other.shape[-1]), input.dtype, input.device)


@function("baddbmm", "addmm")
def baddbmm(input: Meta, batch1: Meta, batch2: Meta, *, beta: Any = 1, alpha: Any = 1) -> Meta | None:
    if batch1.ndim != batch2.ndim or batch1.ndim > 3 or input.dtype is not batch1.dtype:
        return None
    out = matmul(batch1, batch2)
    fits = out is not None and broadcast(tuple(input.shape), tuple(out.shape)) == tuple(out.shape)
    return out if fits and batch1.shape[:-2] == batch2.shape[:-2] else None
