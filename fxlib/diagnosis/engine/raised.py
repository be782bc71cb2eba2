"""The text of an exception from user code."""

from __future__ import annotations

__all__ = ["text_of"]


def text_of(error: BaseException | None) -> str:
    """Its message, computed without calling its own code, which may raise as well."""
    try:
        return str(error)
    except BaseException as broken:
        return f"its message cannot be read: {type(broken).__name__}"
