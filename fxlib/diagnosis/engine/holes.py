"""The node in place of an expression that could not be recorded."""

from __future__ import annotations

from typing import Any

__all__ = ["hole"]


def hole(code: str, reason: str) -> Any:
    """Replaces, in a partial graph, an expression that torch.fx cannot record; ``code`` is the rule.

    Raises:
        RuntimeError: always; a partial graph cannot run.
    """
    raise RuntimeError(f"this part of the model could not be traced ({code}): {reason}")
