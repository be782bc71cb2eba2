"""Files of the workspace that user code reads, such as configurations: a result is out of date when one of them
changes. Modules are noted where they are imported (`user_file`)."""

from __future__ import annotations

import builtins
import io
import os
from typing import Any

_LARGEST = 1 << 20  # bytes: larger ones are data or weights, on which graphs do not depend
_MOST = 100
_MODULES = (".py", ".pyc")
_open = open
_read: dict[str, None] = {}


class _Noting:
    """``open``. An object, since a function in the body of a class would become a method."""

    __name__ = __qualname__ = "open"
    __doc__ = open.__doc__

    def __call__(self, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if mode in ("r", "rb", "rt") and isinstance(file, (str, bytes, os.PathLike)) and len(_read) < _MOST:
            _read.setdefault(os.path.abspath(os.fsdecode(file)))
        return _open(file, mode, *args, **kwargs)


def note() -> None:
    """From now on."""
    if not isinstance(builtins.open, _Noting):
        builtins.open = io.open = _Noting()  # type: ignore[assignment]


def noted() -> list[str]:
    """The files that were read, or that were looked for and are not there."""
    return [path for path in _read if not path.endswith(_MODULES) and _may_matter(path)]


def _may_matter(path: str) -> bool:
    try:
        return os.stat(path).st_size <= _LARGEST
    except OSError:
        return True
