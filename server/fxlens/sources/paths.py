"""How paths are compared, what files are imported as, and where the user's caches are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path


def key(path: str) -> str:
    """The same for every way to write one file's path: links resolved, case folded where the system does."""
    return os.path.normcase(os.path.realpath(path))


def import_name(path: str) -> tuple[str, str]:
    """The dotted name under which a file is imported, and the folder that must be on the path for it."""
    folder, file = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(file)[0]
    parts = [] if stem == "__init__" else [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts), folder


def cache_folder(name: str) -> Path:
    """A folder in ``$XDG_CACHE_HOME/fxlens``, ``~/Library/Caches/fxlens`` or ``%LOCALAPPDATA%\\fxlens``."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "fxlens" / name


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Whether a file is one of ``roots``, or lies below one."""
    inside = key(path)
    return any(inside == root or inside.startswith(os.path.join(root, "")) for root in map(key, roots))
