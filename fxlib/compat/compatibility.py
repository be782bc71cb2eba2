"""The decorator that marks an API as backward compatible or not."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_BACK_COMPAT_OBJECTS: dict[object, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[object, None] = {}

_NOTE = {
    True: "\n\n.. note::\n    Backwards-compatibility for this API is guaranteed.\n",
    False: "\n\n.. warning::\n    This API is experimental and is *NOT* backward-compatible.\n",
}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator for functions and classes: registers them and adds the promise to their docstring."""

    return functools.partial(_marked, is_backward_compatible)


def _marked(promised: bool, thing: _T) -> _T:
    thing.__doc__ = textwrap.dedent(thing.__doc__ or "") + _NOTE[promised]
    registries = (_MARKED_WITH_COMPATIBILITY, _BACK_COMPAT_OBJECTS) if promised else (_MARKED_WITH_COMPATIBILITY,)
    for registry in registries:
        registry[thing] = None
    return thing
