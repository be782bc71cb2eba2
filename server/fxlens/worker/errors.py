"""Texts for exceptions of user code."""

from __future__ import annotations

_LONGEST = 300


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
    """Its message, even if its own code raises."""
    try:
        return str(error)
    except BaseException as broken:
        return f"(its message cannot be read: {type(broken).__name__})"
