"""The folder in which things of this user are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str = "", base: str | None = None) -> Path:
    """A directory of this user's cache that nobody else can write to; made where it is missing."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: one that is not absolute is ignored.
    of_user = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    root = Path(base) if base else of_user / "fxlens"
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder
