"""The cache folder of this user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str = "", base: str | None = None) -> Path:
    """A directory of this user's cache that only this user can write to; created if missing."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    of_user = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    root = Path(base) if base else of_user / "fxlens"
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder
