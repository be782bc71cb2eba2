"""The kinds of job, one file each; a new kind is a new file.

A file has three parts: the message that the server sends, ``work(job)`` in the user's interpreter, and the server's
answer, made from the returned events.  Both processes import it, so torch, fxlib and ``fxlens.worker`` are imported
inside ``work`` and what it calls.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

KINDS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def named(kind: str) -> ModuleType:
    """The file of a kind. Raises ValueError if there is none."""
    if kind not in KINDS:
        raise ValueError(f"there is no kind of job {kind!r}; there are {', '.join(KINDS)}")
    return importlib.import_module(f"{__name__}.{kind}")
