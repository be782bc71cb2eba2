"""Layers that learn their sizes from their first call, such as ``nn.LazyLinear``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

__all__ = ["settle", "waits"]


def waits(module: torch.nn.Module) -> bool:
    """Whether a layer of the module has not been called yet, and so has no sizes."""
    return any(
        isinstance(each, LazyModuleMixin) and each.has_uninitialized_params()  # type: ignore[misc]
        for each in module.modules()
    )


def settle(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Gives such layers their sizes by the first call that PyTorch asks for. Where the call fails, those that it did
    not come to stay as they are: what it raises is a finding of the trace, not of this."""
    # `concrete_args` names those of ``kwargs`` that a trace takes as constants; forward does not know it.
    if not waits(module):
        return
    mode = module.training
    with contextlib.suppress(Exception), torch.no_grad():
        module.eval()(*args, **{name: value for name, value in kwargs.items() if name != "concrete_args"})
    module.train(mode)
