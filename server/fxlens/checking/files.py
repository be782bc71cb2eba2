"""The files that are checked."""

from __future__ import annotations

import os
from collections.abc import Iterable

_LEFT_OUT = {
    ".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache", "site-packages", "build",
}  # fmt: skip


class CannotCheck(Exception):
    """A path that does not exist or cannot be read, or a configuration that says nothing sensible."""


def python_files(paths: Iterable[str]) -> list[str]:
    """The files, and every ``.py`` file below the folders, in order and once.  Raises CannotCheck for a path that is
    not there."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
                inside = (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py"))
                found.update(dict.fromkeys(each for each in inside if os.path.isfile(each)))
        elif os.path.isfile(path):
            found[path] = None
        else:
            raise CannotCheck(f"{path}: {'not an ordinary file' if os.path.exists(path) else 'no such file or folder'}")
    return list(found)


def mentions_models(text: str) -> bool:
    """Whether a file can define a model at all; one that does not need not be executed."""
    return "class " in text and ("torch" in text or "nn.Module" in text or "Module)" in text or "fxlens:" in text)
