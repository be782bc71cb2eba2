"""What an exception of user code says."""

from __future__ import annotations

__all__ = ["text_of"]


def text_of(error: BaseException | None) -> str:
    """Its message, in which its own code has no part: that may raise too, as that of one that holds itself does."""
    try:
        return str(error)
    except BaseException as broken:
        return f"its message cannot be read: {type(broken).__name__}"
