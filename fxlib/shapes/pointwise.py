"""What the rules of elementwise operators have in common: broadcasting, type promotion, the order of memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from fxlib.shapes.tensor_meta import TensorMeta, contiguous_strides

__all__ = ["broadcast", "dense", "elementwise", "inplace", "layout", "numeric", "promote", "same"]

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
    """Shape, strides and device of an elementwise result; None where only torch's iterator knows the memory order."""
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
