"""Fake tensors: shapes, dtypes and devices without data, computed by torch itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["fake_mode"]


def fake_mode() -> FakeTensorMode:
    """A mode that accepts real tensors too, such as the buffers that an expression reads.

    Plain ones are made fake here: torch would import its compiler for the first of them, which takes seconds.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    converter: Any = mode.fake_tensor_converter
    by_torch = converter.from_real_tensor
    known: dict[int, tuple[torch.Tensor, FakeTensor]] = {}

    def from_real_tensor(fake_mode: FakeTensorMode, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> FakeTensor:
        if args or kwargs or not _is_plain(tensor):
            return by_torch(fake_mode, tensor, *args, **kwargs)
        if id(tensor) not in known:
            known[id(tensor)] = tensor, FakeTensor(mode, _on_meta(tensor), tensor.device)
        return known[id(tensor)][1]

    converter.from_real_tensor = from_real_tensor
    return mode


def _is_plain(tensor: torch.Tensor) -> bool:
    own = type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer)
    return (
        own
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.is_inference())
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the same sizes, strides and storage size."""
    size = tensor.untyped_storage().nbytes() // tensor.itemsize
    whole = torch.empty(size, dtype=tensor.dtype, device="meta")
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
