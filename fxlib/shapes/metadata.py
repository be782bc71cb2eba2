"""`TensorMetadata`: the form in which shape propagation leaves its result in ``node.meta["tensor_meta"]``."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from fxlib.shapes.tensor_meta import TensorMeta, contiguous_strides

__all__ = ["TensorMetadata", "extract_tensor_metadata"]


class TensorMetadata(NamedTuple):
    """What a tensor is, without its data."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


_FORMATS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)


def extract_tensor_metadata(result: torch.Tensor | TensorMeta, include_contiguity: bool = True) -> TensorMetadata:
    """The metadata of a tensor (real, meta, fake) or of a `TensorMeta`.

    Args:
        include_contiguity: find the memory format, which for symbolic sizes would guard on them.
    """
    if isinstance(result, TensorMeta):
        strides = result.strides
        known = strides == contiguous_strides(result.shape)
        form = (torch.contiguous_format if known else result.memory_format) if include_contiguity else None
        return TensorMetadata(result.shape, result.dtype, result.requires_grad, strides, form, False, {})
    form = None
    stride: tuple[int, ...] = ()
    if result.layout is torch.strided:
        stride = result.stride()
        if include_contiguity:
            form = next((f for f in _FORMATS if _fits(result, f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, stride, form, result.is_quantized, _quantization(result)
    )


def _fits(tensor: torch.Tensor, form: torch.memory_format) -> bool:
    rank = {torch.channels_last: 4, torch.channels_last_3d: 5}.get(form)
    if rank is None:
        return tensor.is_contiguous(memory_format=form)
    return tensor.dim() == rank and tensor.is_contiguous(memory_format=form)


def _quantization(tensor: torch.Tensor) -> dict[str, Any]:
    if not tensor.is_quantized:
        return {}
    scheme = tensor.qscheme()
    found: dict[str, Any] = {"qscheme": scheme}
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        found |= {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    elif scheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric):
        found |= {
            "scale": tensor.q_per_channel_scales().tolist(),
            "zero_point": tensor.q_per_channel_zero_points().tolist(),
            "axis": tensor.q_per_channel_axis(),
        }
    return found
