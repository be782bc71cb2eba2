"""How paths are compared."""

from __future__ import annotations

import os


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
