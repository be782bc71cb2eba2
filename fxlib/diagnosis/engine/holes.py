"""The node that stands where an expression could not be recorded."""

from __future__ import annotations

from typing import Any

__all__ = ["hole"]


def hole(code: str, reason: str) -> Any:
    """Stands in a partial graph for an expression that torch.fx cannot record; ``code`` is the rule that says why.

    Raises:
        RuntimeError: always; a partial graph cannot run.
    """
    raise RuntimeError(f"this part of the model could not be traced ({code}): {reason}")
