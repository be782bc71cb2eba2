"""Keeps bytecode of the user's files in the user's cache folder, so that checking a repository leaves nothing in it."""

from __future__ import annotations

import importlib._bootstrap_external as machinery
import os
import sys
import time
from typing import Any

from fxlens.sources.paths import cache_folder

_SETTLED = 2.0  # seconds


def keep_elsewhere() -> None:
    """Redirect ``__pycache__`` of modules outside of installations to the cache folder."""
    original = machinery.cache_from_source
    # Searches for a construction may write only below this name.
    folder = str(cache_folder("__pycache__"))
    installed = tuple(os.path.join(os.path.realpath(each), "") for each in {sys.base_prefix, sys.prefix, *_own()})

    def cache_from_source(path: Any, *args: Any, **kwargs: Any) -> str:
        text = os.path.abspath(os.fspath(path))
        if "site-packages" in text or "dist-packages" in text or os.path.realpath(text).startswith(installed):
            return original(path, *args, **kwargs)
        before, sys.pycache_prefix = sys.pycache_prefix, sys.pycache_prefix or folder
        try:
            return original(path, *args, **kwargs)
        finally:
            sys.pycache_prefix = before

    write = machinery.SourceFileLoader._cache_bytecode  # type: ignore[attr-defined]

    def write_of_settled(self: Any, source_path: str, *args: Any, **kwargs: Any) -> None:
        if _is_settled(source_path):
            write(self, source_path, *args, **kwargs)

    machinery.cache_from_source = cache_from_source  # type: ignore[assignment]
    machinery.SourceFileLoader._cache_bytecode = write_of_settled  # type: ignore[attr-defined]


def _is_settled(path: str) -> bool:
    """Whether the next save of a file has another time: Python compares whole seconds, and the size, so that it takes
    the bytecode of the first of two saves within a second."""
    try:
        return abs(time.time() - os.stat(path).st_mtime) > _SETTLED
    except OSError:
        return True


def _own() -> list[str]:
    """The folders of this package and of fxlib."""
    return [os.path.dirname(path) for name in ("fxlens", "fxlib") if (path := sys.modules[name].__file__)]
