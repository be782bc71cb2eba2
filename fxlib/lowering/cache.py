"""The folder in which things of this user are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory(name: str = "", base: str | None = None) -> Path:
    """A directory of this user's cache that nobody else can write to; made where it is missing."""
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxlens"
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder
