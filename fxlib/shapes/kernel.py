"""Shapes by torch itself, where no rule applies: meta kernels first, then fake tensors.

A meta tensor has no device of its own, and a few kernels choose their memory layout by device; those, leaf modules and
user functions run under `FakeTensorMode`, which knows both. The rules are tested against its results and errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)

from fxlib.ir.spelling import target_name
from fxlib.shapes.fake import fake_mode
from fxlib.shapes.pointwise import dense
from fxlib.shapes.tensor_meta import TensorMeta, described

__all__ = ["DataDependentError", "ShapeError", "by_kernel", "by_module", "map_values", "refusals_unlogged", "single"]

_log = logging.getLogger("torch._subclasses.fake_tensor")


@contextmanager
def refusals_unlogged() -> Iterator[None]:
    """Without torch's log of what its shape kernels reject: here a rejection is an expected result."""
    before = _log.disabled
    _log.disabled = True
    try:
        yield
    finally:
        _log.disabled = before


class ShapeError(RuntimeError):
    """The operator refuses inputs of these shapes, dtypes or devices; the text is torch's."""


class DataDependentError(ShapeError):
    """The result, or its shape, depends on values that metadata does not have (``item``, ``nonzero``, ``x[mask]``)."""


_LAYOUT_BY_DEVICE = {
    F.scaled_dot_product_attention,
    F.conv1d,
    F.conv2d,
    F.conv3d,
    F.conv_transpose1d,
    F.conv_transpose2d,
    F.conv_transpose3d,
    F.multi_head_attention_forward,
    F.batch_norm,
    F.group_norm,
    F.instance_norm,
    torch.conv1d,
    torch.conv2d,
    torch.conv3d,
    torch.lstm,
    torch.gru,
    torch.rnn_tanh,
    torch.rnn_relu,
    torch.batch_norm,
}
_LAYOUT_BY_DEVICE_NAMES = ("convolution", "attention", "batch_norm", "_rnn", "lstm", "fft", "linalg", "embedding_bag")


def map_values(value: Any, change: Callable[[Any], Any]) -> Any:
    """``change`` applied to every leaf of nested tuples (named ones too), lists, dicts and slices."""
    kind = type(value)
    if isinstance(value, tuple) and kind is not torch.Size:
        items = [map_values(v, change) for v in value]
        if kind is tuple:
            return tuple(items)
        if hasattr(value, "n_sequence_fields"):
            return kind(items)
        return kind(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [map_values(v, change) for v in value]
    if isinstance(value, dict):
        return {k: map_values(v, change) for k, v in value.items()}
    if kind is slice:
        return slice(map_values(value.start, change), map_values(value.stop, change), map_values(value.step, change))
    return change(value)


def by_kernel(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, fake: bool = False) -> Any:
    """The result's metadata by running ``target`` without data.

    Raises:
        ShapeError: torch refuses the call.
        DataDependentError: the result depends on data.
    """
    metas, odd = _devices(args, kwargs)
    if not fake and not _by_device(target) and len(metas) <= 1 and not odd and "device" not in kwargs:
        device = next(iter(metas), None)
        try:
            with torch.no_grad():
                out = target(*map_values(args, _to_meta), **map_values(kwargs, _to_meta))
            return map_values(out, lambda v: _from_meta(v, device))
        except Exception:
            pass  # fake tensors decide, also on the error text
    return _by_fake(target, args, kwargs, target_name(target))


def _by_device(target: Any) -> bool:
    if getattr(target, "__module__", None) is None and not hasattr(target, "__name__"):
        return True
    return target in _LAYOUT_BY_DEVICE or any(
        part in getattr(target, "__name__", "") for part in _LAYOUT_BY_DEVICE_NAMES
    )


def _devices(args: Any, kwargs: Any) -> tuple[set[torch.device], bool]:
    """The tensors' devices, and whether a stride is arbitrary (size 1 in a non-contiguous tensor)."""
    found: set[torch.device] = set()
    odd = False

    def look(value: Any) -> Any:
        nonlocal odd
        if isinstance(value, TensorMeta):
            found.add(value.device)
            odd = odd or (1 in value.shape and not value.contiguous)
        return value

    map_values(args, look)
    map_values(kwargs, look)
    return found, odd


def _to_meta(value: Any) -> Any:
    meta = described(value)
    return meta.blank("meta") if isinstance(meta, TensorMeta) else value


def _from_meta(value: Any, device: torch.device | None) -> Any:
    if isinstance(value, torch.Tensor):
        return TensorMeta(value.shape, value.dtype, value.device if device is None else device, tuple(value.stride()))
    return value


def _by_fake(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    mode = fake_mode()
    here = next(iter(_devices(args, kwargs)[0] - {torch.device("meta")}), torch.device("cpu"))

    def to_fake(value: Any) -> Any:
        meta = value if isinstance(value, FakeTensor) else described(value)
        if not isinstance(meta, TensorMeta):
            return value
        tensor = meta.blank(here if meta.device.type == "meta" else meta.device)
        if meta is not value:
            return tensor.requires_grad_(meta.requires_grad)
        if meta.requires_grad and dense(tuple(meta.shape), meta.strides):
            return tensor.requires_grad_().clone()  # not a leaf, so that in-place operators may follow
        return tensor

    try:
        with mode, refusals_unlogged():
            out = target(*map_values(args, to_fake), **map_values(kwargs, to_fake))
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise DataDependentError(f"{name}: the result depends on the data ({error.func})") from error
    except UnsupportedOperatorException as error:
        raise ShapeError(f"{name}: torch has no shape kernel for it ({error})") from error
    except Exception as error:
        if "data-dependent" in str(error).lower() or "Cannot copy out of meta tensor" in str(error):
            raise DataDependentError(f"{name}: {error}") from error
        raise ShapeError(f"{name}: {type(error).__name__}: {error}") from error
    return map_values(out, described)


def single(module: nn.Module) -> nn.Module:
    """The module that a `DataParallel` calls on each device."""
    return module.module if isinstance(module, nn.DataParallel) else module


def by_module(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result's metadata of a leaf module, computed with fake parameters and buffers; its state is restored."""
    module = single(module)
    state = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    before = [(each, dict(each.__dict__)) for each in module.modules()]
    names = list(state)

    def call(values: list[Any], *inputs: Any, **named: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, values, strict=False)), inputs, named)

    try:
        return _by_fake(call, (list(state.values()), *args), kwargs, type(module).__name__)
    finally:
        for each, attributes in before:
            each.__dict__.clear()
            each.__dict__.update(attributes)
