"""Memory for large results, reused once the caller has released the last one.

A result of tens of megabytes is allocated by the operating system page by page in every call and returned when freed;
touching new pages then costs more than an int8 product. Here the memory is kept, and reused only when no tensor, view
or array refers to it.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

__all__ = ["LargeResult"]

LARGE = 32 << 20
"""Bytes from which the C library's allocator always uses the operating system."""

_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)


class LargeResult:
    """The memory of one layer's results: at most one, of the last size and dtype requested."""

    def __init__(self) -> None:
        self._held: torch.Tensor | None = None
        self._lock = threading.Lock()

    def take(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """An uninitialised tensor that nothing else refers to."""
        numel = 1
        for size in shape:
            numel *= size
        if numel * dtype.itemsize < LARGE or _use_count is None:
            return torch.empty(shape, dtype=dtype)
        with self._lock:
            held = self._held
            if held is None or held.numel() != numel or held.dtype is not dtype or not _idle(held):
                del held
                self._held = None  # never hold both
                held = self._held = torch.empty(numel, dtype=dtype)
            return held.detach().view(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]


def _idle(held: torch.Tensor) -> bool:
    """Whether only ``held`` itself (and the handle used here) refers to its storage."""
    return bool(_use_count(held.untyped_storage()._cdata) <= _OWN_USES)


def _own_uses() -> int:
    alone = torch.empty(1)
    return int(_use_count(alone.untyped_storage()._cdata)) if _use_count is not None else 0


_OWN_USES = _own_uses()
