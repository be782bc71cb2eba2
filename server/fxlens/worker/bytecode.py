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

    def is_installed(path: Any) -> bool:
        text = os.path.abspath(os.fspath(path))
        return "site-packages" in text or "dist-packages" in text or os.path.realpath(text).startswith(installed)

    def cache_from_source(path: Any, *args: Any, **kwargs: Any) -> str:
        if is_installed(path):
            return original(path, *args, **kwargs)
        before, sys.pycache_prefix = sys.pycache_prefix, sys.pycache_prefix or folder
        try:
            return original(path, *args, **kwargs)
        finally:
            sys.pycache_prefix = before

    write = machinery.SourceFileLoader._cache_bytecode  # type: ignore[attr-defined]
    stats = machinery.SourceFileLoader.path_stats

    def stats_of_now(self: Any, path: Any) -> Any:
        """With the time at which the file came to be there: programs that unpack or copy set that of its content."""
        found = stats(self, path)
        if os.name != "nt" and not is_installed(path):
            found = {**found, "mtime": os.stat(path).st_ctime}
        return found

    def write_of_settled(self: Any, source_path: str, *args: Any, **kwargs: Any) -> None:
        if _is_settled(source_path):
            write(self, source_path, *args, **kwargs)

    machinery.cache_from_source = cache_from_source  # type: ignore[assignment]
    machinery.SourceFileLoader._cache_bytecode = write_of_settled  # type: ignore[attr-defined]
    machinery.SourceFileLoader.path_stats = stats_of_now  # type: ignore[method-assign]


def _is_settled(path: str) -> bool:
    """Whether the next save of a file has another time: Python compares whole seconds, and the size, so that it takes
    the bytecode of the first of two saves within a second."""
    try:
        state = os.stat(path)
        return abs(time.time() - (state.st_mtime if os.name == "nt" else state.st_ctime)) > _SETTLED
    except OSError:
        return True


def _own() -> list[str]:
    """The folders of this package and of fxlib."""
    return [os.path.dirname(path) for name in ("fxlens", "fxlib") if (path := sys.modules[name].__file__)]
