"""The mark that an API keeps, or does not promise to keep, its form."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}

_NOTE = {
    True: "\n\n.. note::\n    Backwards-compatibility for this API is guaranteed.\n",
    False: "\n\n.. warning::\n    This API is experimental and is *NOT* backward-compatible.\n",
}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator for functions and classes: registers them and says in their docstring what is promised."""

    def mark(thing: _T) -> _T:
        thing.__doc__ = textwrap.dedent(getattr(thing, "__doc__", None) or "") + _NOTE[is_backward_compatible]
        _MARKED_WITH_COMPATIBILITY.setdefault(thing)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(thing)
        return thing

    return mark
