"""Texts for exceptions of user code."""

from __future__ import annotations

import inspect

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
    """Its message, even if its own code raises."""
    try:
        text = str(error)
    except BaseException as broken:
        return f"(its message cannot be read: {type(broken).__name__})"
    return _TOO_DEEP if isinstance(error, RecursionError) and text.startswith(_TOO_DEEP) else text


def of_property(error: AttributeError) -> BaseException:
    """What a property of a module raised, of which torch says only that the module has no such attribute; the error as
    it is where there is none."""
    owner, name = getattr(error, "obj", None), str(getattr(error, "name", None))
    found = inspect.getattr_static(type(owner), name, None)
    if not isinstance(found, property) or found.fget is None or error.__traceback__ is None:
        return error
    try:
        found.fget(owner)
    except Exception as behind:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        last.tb_next = behind.__traceback__.tb_next if behind.__traceback__ is not None else None
        return behind.with_traceback(error.__traceback__)
    return error


def of_a_resource(error: BaseException) -> bool:
    """Whether another process may cause it, which holds a port, a lock or a file. Packages have classes of their own
    for that; those of Python are otherwise about the code."""
    if isinstance(error, OSError):
        return not isinstance(error, FileNotFoundError)
    return type(error).__module__.partition(".")[0] not in ("builtins", "fxlens")
