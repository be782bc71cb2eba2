"""How paths are compared."""

from __future__ import annotations

import os


def key(path: str) -> str:
    """The same for every way to write one file's path: links resolved, case folded where the system does."""
    return os.path.normcase(os.path.realpath(path))
