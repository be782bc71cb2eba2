"""What a job may say of an exception of user code."""

from __future__ import annotations

_LONGEST = 300
_TOO_DEEP = "maximum recursion depth exceeded"
"""Python adds what it was doing, which depends on how deep the stack was where an endless recursion began."""


def brief(error: BaseException | None) -> str:
    """``TypeError: first line of the message``, of bounded length, whole sentences if possible, no full stop."""
    lines = text_of(error).strip().splitlines()
    text = lines[0].rstrip(".:") if lines else ""
    if len(text) > _LONGEST:
        whole, end, _ = text[:_LONGEST].rpartition(". ")
        text = whole if end else text[:_LONGEST] + "…"
    name = type(error).__name__
    name = name if len(name) <= _LONGEST else name[:_LONGEST] + "…"
    return f"{name}: {text}" if text else name


def text_of(error: BaseException | None) -> str:
    """Its message, whatever its own code does when it is asked for."""
    try:
        text = str(error)
    except BaseException as broken:
        return f"(its message cannot be read: {type(broken).__name__})"
    return _TOO_DEEP if isinstance(error, RecursionError) and text.startswith(_TOO_DEEP) else text
