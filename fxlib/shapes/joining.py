"""Shape rules of the operators that join, repeat and pad."""

from __future__ import annotations

from typing import Any, TypeGuard

from fxlib.shapes.table import function, method
from fxlib.shapes.tensor_meta import TensorMeta, channels_last_strides
from fxlib.shapes.views import axis, ints, view_of

Meta = TensorMeta


def _metas(values: Any) -> TypeGuard[list[Meta]]:
    return isinstance(values, (tuple, list)) and bool(values) and all(isinstance(x, Meta) for x in values)


@function("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Meta | None:
    if axis is not None or not _metas(tensors):
        return None
    first = tensors[0]
    if not first.ndim or type(dim) is not int or not -first.ndim <= dim < first.ndim:
        return None
    at = dim % first.ndim
    head, tail = first.shape[:at], first.shape[at + 1 :]
    layout = "contiguous"
    if not first.contiguous:
        layout = "channels_last"
    total = 0
    for x in tensors:
        if x.ndim != first.ndim or x.dtype is not first.dtype or x.device != first.device:
            return None
        if x.shape[:at] != head or x.shape[at + 1 :] != tail:
            return None
        if not (x.contiguous if layout == "contiguous" else x.strides == channels_last_strides(tuple(x.shape))):
            return None
        total += x.shape[at]
    shape = head + (total,) + tail
    return view_of(first, shape, None if layout == "contiguous" else channels_last_strides(tuple(shape)))


@function("stack")
def stack(tensors: Any, dim: int = 0) -> Meta | None:
    if not _metas(tensors):
        return None
    first = tensors[0]
    at = axis(dim, first.ndim + 1)
    if at is None or any(x.shape != first.shape or x.dtype is not first.dtype or not x.contiguous for x in tensors):
        return None
    return view_of(first, first.shape[:at] + (len(tensors),) + first.shape[at:])


@method("repeat")
def repeat(input: Meta, *repeats: Any) -> Meta | None:
    times = ints(repeats)
    if times is None or len(times) < input.ndim:
        return None
    shape = (1,) * (len(times) - input.ndim) + tuple(input.shape)
    return view_of(input, tuple(s * n for s, n in zip(shape, times, strict=False)))


@function("roll", "flip")
def roll(input: Meta, *args: Any, **kwargs: Any) -> Meta | None:
    return input if input.contiguous and args else None


@function("tril", "triu")
def triangle(input: Meta, diagonal: int = 0) -> Meta | None:
    return input if input.contiguous and input.ndim >= 2 else None


@function("pad")
def pad(input: Meta, pad: Any, mode: str = "constant", value: Any = None) -> Meta | None:
    amounts = ints((pad,)) if isinstance(pad, (tuple, list)) else None
    if (
        amounts is None
        or len(amounts) % 2
        or len(amounts) > 2 * input.ndim
        or not input.contiguous
        or mode != "constant"
    ):
        return None
    shape = list(input.shape)
    for i in range(len(amounts) // 2):
        shape[-1 - i] += amounts[2 * i] + amounts[2 * i + 1]
    if not any(amounts) or min(shape) <= 0:
        return None
    return view_of(input, tuple(shape))


@function("pixel_shuffle")
def pixel_shuffle(input: Meta, upscale_factor: int) -> Meta | None:
    if input.ndim < 3 or not input.contiguous or type(upscale_factor) is not int or upscale_factor < 1:
        return None
    if input.shape[-3] % upscale_factor**2:
        return None
    *lead, c, h, w = input.shape
    return view_of(input, (*lead, c // upscale_factor**2, h * upscale_factor, w * upscale_factor))


@function("repeat_interleave")
def repeat_interleave(
    input: Meta, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Meta | None:
    if type(repeats) is not int or dim is None or not input.contiguous:
        return None
    at = axis(dim, input.ndim)
    if at is None:
        return None
    return view_of(input, input.shape[:at] + (input.shape[at] * repeats,) + input.shape[at + 1 :])
