"""The error for a module that was given where its graph is needed."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["check_traced"]


def check_traced(value: Any, caller: str) -> None:
    """
    Args:
        value: what a function took as a traced module.
        caller: the function, for the error.

    Raises:
        TypeError: it has no graph.
    """
    if hasattr(value, "graph"):
        return
    kind = f"{'an' if type(value).__name__[0] in 'AEIOUaeiou' else 'a'} {type(value).__name__}"
    hint = "; trace it first: fxlib.symbolic_trace(model)" if isinstance(value, torch.nn.Module) else ""
    raise TypeError(f"{caller} takes a GraphModule, not {kind}{hint}")
