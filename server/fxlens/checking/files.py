"""The files that are checked: found, read and written as Python would."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import tokenize
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
            for folder, folders, files in os.walk(path):
                folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
                found.update(
                    dict.fromkeys(os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))
                )
        elif os.path.isfile(path):
            found[path] = None
        else:
            raise CannotCheck(f"{path}: no such file or folder")
    return list(found)


def mentions_models(text: str) -> bool:
    """Whether a file can define a model at all; one that does not need not be executed."""
    return "class " in text and ("torch" in text or "nn.Module" in text or "Module)" in text or "fxlens:" in text)


def read_source(path: str) -> str:
    """The text as Python would decode it: byte-order mark and coding comment honoured, line ends kept."""
    with open(path, "rb") as file:
        data = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def write_source(path: str, text: str) -> None:
    """Replaces a file's text in the encoding it has, all at once."""
    with open(path, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    data = text.encode(encoding)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".fxlens-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
