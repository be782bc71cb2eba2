"""Shape rules of reductions and cumulative sums."""

from __future__ import annotations

from typing import Any

import torch

from fxlib.ir.leaves import as_sequence
from fxlib.shapes.pointwise import promote
from fxlib.shapes.table import Rule, function
from fxlib.shapes.tensor_meta import TensorMeta
from fxlib.shapes.views import axis

Meta = TensorMeta


def reduced(input: Meta, dim: Any, keepdim: bool, dtype: torch.dtype) -> Meta | None:
    if not input.contiguous:
        return None
    if dim is None or dim == () or dim == []:
        gone = set(range(input.ndim))
    else:
        dims = [axis(d, input.ndim) for d in as_sequence(dim)]
        if None in dims or len(set(dims)) != len(dims):
            return None
        gone = set(dims)  # type: ignore[arg-type]
    if keepdim:
        shape = tuple(1 if i in gone else s for i, s in enumerate(input.shape))
    else:
        shape = tuple(s for i, s in enumerate(input.shape) if i not in gone)
    return Meta(shape, dtype, input.device)


@function("mean", "nanmean")
def mean(input: Meta, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Meta | None:
    return reduced(input, dim, keepdim, dtype or input.dtype) if dtype or input.dtype.is_floating_point else None


@function("sum", "nansum")
def sum_(input: Meta, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Meta | None:
    small = not input.dtype.is_floating_point and not input.dtype.is_complex
    return reduced(input, dim, keepdim, dtype or (torch.int64 if small else input.dtype))


@function("amax", "amin")
def amax(input: Meta, dim: Any = (), keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, input.dtype)


@function("argmax", "argmin")
def argmax(input: Meta, dim: Any = None, keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, torch.int64)


@function("var", "std")
def var(
    input: Meta, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1
) -> Meta | None:
    if not input.dtype.is_floating_point or type(dim) is bool:
        return None
    return reduced(input, dim, keepdim, input.dtype)


@function("logsumexp")
def logsumexp(input: Meta, dim: Any, keepdim: bool = False) -> Meta | None:
    return reduced(input, dim, keepdim, input.dtype) if input.dtype.is_floating_point else None


def _extreme(kind: Any) -> Rule:
    def rule(input: Meta, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Meta):
            dtype = promote((input, dim))
            return (
                Meta(input.shape, dtype, input.device)
                if dtype and input.shape == dim.shape and input.contiguous and dim.contiguous
                else None
            )
        values = reduced(input, dim, keepdim, input.dtype)
        if values is None or dim is None:
            return values
        return kind((values, reduced(input, dim, keepdim, torch.int64)))

    return rule


function("max")(_extreme(torch.return_types.max))
function("min")(_extreme(torch.return_types.min))


@function("cumsum", "cumprod")
def cumulative(input: Meta, dim: int, *, dtype: torch.dtype | None = None) -> Meta | None:
    small = not input.dtype.is_floating_point and not input.dtype.is_complex
    return (
        Meta(input.shape, dtype or (torch.int64 if small else input.dtype), input.device) if input.contiguous else None
    )
