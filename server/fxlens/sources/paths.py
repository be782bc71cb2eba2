"""How paths are compared."""

from __future__ import annotations

import os
from collections.abc import Iterable


def key(path: str) -> str:
    """The same for every way to write one file's path: links resolved, case folded where the system does."""
    return os.path.normcase(os.path.realpath(path))


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Whether a file is one of ``roots``, or lies below one."""
    inside = key(path)
    return any(inside == root or inside.startswith(os.path.join(root, "")) for root in map(key, roots))
