"""The error for a module that was given where its graph is needed."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["check_float_graph", "check_traced"]


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


def check_float_graph(value: Any, caller: str) -> None:
    """
    Raises:
        TypeError: it has no graph.
        ValueError: a layer of it was made for this machine's kernels by a pass, and has no float layer's weights.
    """
    check_traced(value, caller)
    for name, module in value.named_modules():
        if hasattr(module, "_packed"):
            raise ValueError(
                f"{caller} needs a graph with layers as they were traced, but {name!r} is a {type(module).__name__} "
                "that a pass has written; apply it to the traced model first"
            )
