"""What is known of a tensor without its data: shape, dtype, device, strides and whether it requires grad.

An immutable value, compared by content, so that it can be part of a dictionary key. It has the shape methods that
models use (``x.shape``, ``x.size(0)``, ``x.dim()``); the rules compute with it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

__all__ = ["TensorMeta", "channels_last_strides", "contiguous_strides", "device_of"]


@lru_cache(maxsize=65536)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides (in elements) of a row-major tensor; a dimension of size 0 counts as 1, as in torch."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


@lru_cache(maxsize=16384)
def channels_last_strides(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a channels-last tensor of 4 or 5 dimensions; None for other ranks."""
    if len(shape) not in (4, 5):
        return None
    order = (1, *range(len(shape) - 1, 1, -1), 0)
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def device_of(value: str | torch.device | int) -> torch.device | None:
    """The device for a device argument; None for a name unknown to torch."""
    try:
        return torch.device(value)
    except RuntimeError:
        return None


def described(value: Any) -> Any:
    """The metadata of a tensor; anything else as it is."""
    return TensorMeta.of(value) if torch.is_tensor(value) else value


class TensorMeta:
    """Shape (ints), dtype, device, strides (elements) and ``requires_grad`` of a tensor without data."""

    __slots__ = ("_hash", "device", "dtype", "requires_grad", "shape", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        strides: tuple[int, ...] | None = None,
        requires_grad: bool = False,
    ) -> None:
        self.shape = shape if type(shape) is torch.Size else torch.Size(shape)
        self.dtype = dtype
        self.device = device
        self.strides = contiguous_strides(shape) if strides is None else strides
        self.requires_grad = requires_grad
        self._hash = 0

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMeta:
        """The metadata of a real, meta or fake tensor (strided layout; others are described as if contiguous)."""
        strides = tuple(tensor.stride()) if tensor.layout is torch.strided else None
        return cls(tensor.shape, tensor.dtype, tensor.device, strides, tensor.requires_grad)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def numel(self) -> int:
        return self.shape.numel()

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Strides are exactly the row-major ones (stricter than torch about dimensions of size 1)."""
        return self.strides == contiguous_strides(self.shape)

    @property
    def memory_format(self) -> torch.memory_format | None:
        """As ``TensorMetadata.memory_format``: the first of contiguous, channels-last, channels-last-3d that fits."""
        if _like(self.shape, self.strides, contiguous_strides(self.shape)):
            return torch.contiguous_format
        if _like(self.shape, self.strides, channels_last_strides(self.shape)):
            return torch.channels_last if len(self.shape) == 4 else torch.channels_last_3d
        return None

    def with_grad(self, requires_grad: bool) -> TensorMeta:
        if requires_grad is self.requires_grad:
            return self
        return TensorMeta(self.shape, self.dtype, self.device, self.strides, requires_grad)

    def empty(self, device: str | torch.device | None = "meta") -> torch.Tensor:
        """A tensor without data that has this metadata, on ``device`` (by default the meta device)."""
        tensor = self.blank(self.device if device is None else device)
        return tensor.requires_grad_() if self.requires_grad else tensor

    def blank(self, device: str | torch.device) -> torch.Tensor:
        """A tensor without data and gradient of this shape, strides and dtype on ``device``."""
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TensorMeta)
            and self.shape == other.shape
            and self.dtype is other.dtype
            and self.strides == other.strides
            and self.device == other.device
            and self.requires_grad is other.requires_grad
        )

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash((self.shape, self.dtype, self.strides, self.device.type)) or 1
        return self._hash

    def __repr__(self) -> str:
        return str(self) if self.contiguous else f"{self}:{list(self.strides)}"

    def __str__(self) -> str:
        return (
            f"{SHORT_DTYPE.get(self.dtype, str(self.dtype).removeprefix('torch.'))}[{', '.join(map(str, self.shape))}]"
        )


def _like(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...] | None) -> bool:
    if wanted is None:
        return False
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=False)) or 0 in shape


SHORT_DTYPE = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
