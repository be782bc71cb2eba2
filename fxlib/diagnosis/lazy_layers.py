"""Layers that get their sizes from their first call, such as ``nn.LazyLinear``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

__all__ = ["settle", "waits"]


def waits(module: torch.nn.Module) -> bool:
    """Whether a layer of the module still has no sizes, because it was never called."""
    return any(
        isinstance(each, LazyModuleMixin) and each.has_uninitialized_params()  # type: ignore[misc]
        for each in module.modules()
    )


def settle(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Gives such layers their sizes by the first call that PyTorch requires. If the call fails, the layers that it did
    not reach stay without sizes: the trace reports the error."""
    # `concrete_args` lists those of ``kwargs`` that a trace treats as constants; forward does not know it.
    if not waits(module):
        return
    mode = module.training
    with contextlib.suppress(Exception), torch.no_grad():
        module.eval()(*args, **{name: value for name, value in kwargs.items() if name != "concrete_args"})
    module.train(mode)
