"""Giving a traced value a type."""

from __future__ import annotations

from typing import Any

from .proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: type) -> Any:
    """Types a value: under tracing the node of ``val`` gets ``type``, otherwise ``val`` is returned as it is.

    TorchScript needs it where an annotated assignment would be lost in a graph.

    Args:
        val: a traced or a real value.
        type: the type, as in ``x: type``.

    Raises:
        RuntimeError: the node has a type already.
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(
            f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new type "
            f"is {type}. This could happen if you tried to annotate a function parameter value (in which case you "
            "should use the type slot on the function signature) or you called annotate on the same value twice"
        )
    val.node.type = type
    return val
