"""Detects which of some tensors are written to by operators, also through views and `data`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fxlib.ir.leaves import storages

__all__ = ["Writes"]


class Writes(TorchDispatchMode):
    """While it is active, ``about_to`` is called with the name of each tensor before an operator writes to its memory.

    Writes through NumPy arrays are not seen.
    """

    def __init__(self, tensors: Iterable[tuple[str, torch.Tensor]], about_to: Callable[[str], None]) -> None:
        super().__init__()
        self.names: dict[Hashable, list[str]] = {}
        self.about_to = about_to
        for name, tensor in tensors:
            for key in storages(tensor):
                self.names.setdefault(key, []).append(name)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func._schema.is_mutable:
            for position, declared in enumerate(func._schema.arguments):
                if declared.alias_info is not None and declared.alias_info.is_write:
                    written = args[position] if position < len(args) else given.get(declared.name)
                    for key in storages(written):
                        for name in self.names.get(key, ()):
                            self.about_to(name)
        return func(*args, **given)
