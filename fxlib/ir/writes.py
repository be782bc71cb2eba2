"""Detects which tensors are written to by operators, also through views and `data`, and which get other memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fxlib.ir.leaves import storages, tensors_in

__all__ = ["Replacements", "Writes"]


class Writes(TorchDispatchMode):
    """While it is active, ``about_to`` is called with the name of each tensor before an operator writes to its memory.

    Writes through NumPy arrays are not seen. ``operator`` is the name of the operator that is about to write.
    """

    operator = ""

    def __init__(self, tensors: Iterable[tuple[str, torch.Tensor]], about_to: Callable[[str], None]) -> None:
        super().__init__()
        self.held: dict[Hashable, list[tuple[str, range]]] = {}
        self.about_to = about_to
        for name, tensor in tensors:
            for key in storages(tensor):
                self.held.setdefault(key, []).append((name, _extent(tensor)))

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func._schema.is_mutable:
            self.operator = func._schema.name.rpartition("::")[2]
            for position, declared in enumerate(func._schema.arguments):
                if declared.alias_info is not None and declared.alias_info.is_write:
                    written = args[position] if position < len(args) else given.get(declared.name)
                    for tensor in tensors_in(written):
                        self._written(tensor)
        return func(*args, **given)

    def _written(self, tensor: torch.Tensor) -> None:
        for key in storages(tensor):
            for name, held in self.held.get(key, ()):
                extent = _extent(tensor)
                if max(extent.start, held.start) < min(extent.stop, held.stop):
                    self.about_to(name)


def _extent(tensor: torch.Tensor) -> range:
    """The bytes of its memory from the first to the last one that it shows; all if it does not say."""
    try:
        first = tensor.storage_offset()
        last = first + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    except (NotImplementedError, RuntimeError):  # as sparse tensors
        return range(sys.maxsize)
    return range(first * tensor.itemsize, (last + 1) * tensor.itemsize)


class Replacements(TorchFunctionMode):
    """While it is active, ``about_to`` is called with a tensor and another one before ``tensor.data = other`` gives it
    the memory of that, which no operator does."""

    def __init__(self, about_to: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        super().__init__()
        self.about_to = about_to

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func == _SET_DATA and all(isinstance(each, torch.Tensor) for each in args):
            self.about_to(*args)
        return func(*args, **(kwargs or {}))


_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
