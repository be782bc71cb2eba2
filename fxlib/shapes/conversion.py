"""Shape rules of conversions, of ``*_like`` factories, and of modules that rearrange."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fxlib.shapes.joining import pad, pixel_shuffle
from fxlib.shapes.pointwise import dense
from fxlib.shapes.table import Rule, function, method, module
from fxlib.shapes.tensor_meta import TensorMeta, device_of
from fxlib.shapes.views import flatten, ints, unflatten

Meta = TensorMeta


# Conversion ----------------------------------------------------------------------------------------------------------


@method("to")
def to(input: Meta, *args: Any, **kwargs: Any) -> Meta | None:
    dtype: torch.dtype = input.dtype
    device: torch.device | None = input.device
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, (str, torch.device)):
            device = device_of(value)
        elif isinstance(value, Meta):
            dtype, device = value.dtype, value.device
        elif type(value) is bool:
            continue
        elif value is not None:
            return None
    moved = dtype is not input.dtype or device != input.device
    if device is None or (moved and not dense(tuple(input.shape), input.strides)):
        return None
    return Meta(input.shape, dtype, device, input.strides)


def _cast(dtype: torch.dtype) -> Rule:
    def rule(input: Meta) -> Meta | None:
        return to(input, dtype)

    return rule


for _name, _dtype in {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "short": torch.int16,
    "char": torch.int8,
    "byte": torch.uint8,
    "bool": torch.bool,
}.items():
    method(_name)(_cast(_dtype))


@method("type_as")
def type_as(input: Meta, other: Meta) -> Meta | None:
    return to(input, other.dtype)


@method("cpu")
def cpu(input: Meta) -> Meta | None:
    return to(input, "cpu")


@function("detach")
def detach(input: Meta) -> Meta:
    return input


# Making --------------------------------------------------------------------------------------------------------------


@function("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
def like(
    input: Meta,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> Meta | None:
    where = input.device if device is None else device_of(device)
    if memory_format is not None or where is None or not dense(tuple(input.shape), input.strides):
        return None
    return Meta(input.shape, dtype or input.dtype, where, input.strides)


@method("new_zeros", "new_ones", "new_empty")
def new(
    input: Meta, *size: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
) -> Meta | None:
    sizes, where = ints(size), input.device if device is None else device_of(device)
    return None if sizes is None or where is None else Meta(sizes, dtype or input.dtype, where)


# Modules -------------------------------------------------------------------------------------------------------------


@module(nn.Flatten)
def flatten_module(module: nn.Flatten, input: Meta) -> Meta | None:
    return flatten(input, module.start_dim, module.end_dim)


@module(nn.Unflatten)
def unflatten_module(module: nn.Unflatten, input: Meta) -> Meta | None:
    return unflatten(input, module.dim, module.unflattened_size) if type(module.dim) is int else None


@module(nn.PixelShuffle)
def pixel_shuffle_module(module: nn.PixelShuffle, input: Meta) -> Meta | None:
    return pixel_shuffle(input, module.upscale_factor)


@module(nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)
def pad_module(module: nn.ConstantPad2d, input: Meta) -> Meta | None:
    return pad(input, module.padding)
