"""Shape rules of the operators that make a tensor from sizes and numbers alone (``arange``, ``zeros``, ``full``, …).

Without a rule such a call runs on fake tensors, and the first one in a process imports ``torch._dynamo``, which takes
most of a second.
"""

from __future__ import annotations

from typing import Any

import torch

from fxlib.shapes.table import only_function
from fxlib.shapes.tensor_meta import TensorMeta as Meta
from fxlib.shapes.tensor_meta import device_of
from fxlib.shapes.views import ints

__all__: list[str] = []


def _device(device: Any) -> torch.device | None:
    """The result's device; None for one whose index only torch knows."""
    found = torch.get_default_device() if device is None else device_of(device)
    return found if found is not None and found.type in ("cpu", "meta") and found.index is None else None


def _made(shape: tuple[int, ...] | None, dtype: torch.dtype | None, device: Any) -> Meta | None:
    where = _device(device)
    if shape is None or where is None or any(size < 0 for size in shape):
        return None
    return Meta(shape, dtype or torch.get_default_dtype(), where)


@only_function("arange")
def arange(
    *limits: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Meta | None:
    if requires_grad or not 1 <= len(limits) <= 3 or any(type(limit) is not int for limit in limits):
        return None
    low, high, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
    if step == 0 or (high - low) * step < 0:
        return None
    return _made((-(-(high - low) // step),), dtype or torch.int64, device)


@only_function("zeros", "ones", "empty", "rand", "randn")
def filled(
    *size: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Meta | None:
    return None if requires_grad or not size else _made(ints(size), dtype, device)


@only_function("full")
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Meta | None:
    kind = dtype or {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}.get(type(fill_value))
    return None if requires_grad or kind is None else _made(ints((size,)), kind, device)
