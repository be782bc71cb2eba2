"""The text of an exception from user code, and where it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType

__all__ = ["text_of", "way_of"]

_TOO_DEEP = "maximum recursion depth exceeded"
"""What Python says of an endless recursion.  What follows, as in "while calling a Python object", depends on the depth
of the stack before it."""


def text_of(error: BaseException | None) -> str:
    """Its message, computed without calling its own code, which may raise as well."""
    try:
        text = str(error)
    except BaseException as broken:
        return f"its message cannot be read: {type(broken).__name__}"
    return _TOO_DEEP if isinstance(error, RecursionError) and text.startswith(_TOO_DEEP) else text


def way_of(error: BaseException, is_other: Callable[[str], bool]) -> list[TracebackType]:
    """Where it came through code of all but other files, from the outside to where it was raised.

    How deep the stack was before decides in which of its calls an endless recursion ends.  So its way is only the first
    round, up to the call that begins the second.
    """
    found, trace = [], error.__traceback__
    while trace is not None:
        if not is_other(trace.tb_frame.f_code.co_filename):
            found.append(trace)
        trace = trace.tb_next
    if isinstance(error, RecursionError) and found:
        codes = [id(each.tb_frame.f_code) for each in found]
        recurs, _ = Counter(codes).most_common(1)[0]
        if recurs in codes[(first := codes.index(recurs)) + 1 :]:
            del found[codes.index(recurs, first + 1) :]
    return found
