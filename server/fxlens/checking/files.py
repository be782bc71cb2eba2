"""The files that are checked."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..sources.files import FOREIGN

_ROOTS = (".git", "pyproject.toml", "setup.py", "requirements.txt", "README.md")


class CannotCheck(Exception):
    """A path that does not exist or cannot be read, or a configuration that says nothing sensible."""


def python_files(paths: Iterable[str]) -> list[str]:
    """The files, and every ``.py`` file and notebook below the folders, in order and once.  Raises CannotCheck for a
    path that is not there."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if name not in FOREIGN and not name.startswith("."))
                inside = (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".ipynb")))
                found.update(dict.fromkeys(each for each in inside if os.path.isfile(each)))
        elif os.path.isfile(path):
            found[path] = None
        else:
            raise CannotCheck(f"{path}: {'not an ordinary file' if os.path.exists(path) else 'no such file or folder'}")
    return list(found)


def folder_of(path: str, folder: str) -> str:
    """The workspace that a file is checked in: ``folder`` where that holds it, or else its repository."""
    path, folder = os.path.abspath(path), os.path.abspath(folder)
    if os.path.commonpath([path, folder]) == folder:
        return folder
    at = os.path.dirname(path)
    while True:
        if any(os.path.exists(os.path.join(at, name)) for name in _ROOTS):
            return at
        parent = os.path.dirname(at)
        if parent == at:
            return os.path.dirname(path)
        at = parent


def mentions_models(text: str) -> bool:
    """Whether a file can define a model at all; one that does not need not be executed."""
    return "class " in text and ("torch" in text or "nn.Module" in text or "Module)" in text or "fxlens:" in text)
