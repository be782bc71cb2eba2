"""Which files of a workspace are read: its own Python files, notebooks and configuration files, nothing installed."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator

from ..sources.files import FOREIGN, read_bytes

PYTHON = (".py", ".ipynb", ".md")
CONFIGURATION = (".yaml", ".yml", ".json", ".toml")
MOST_BYTES = 1 << 20
_MOST_FILES = 20_000


def is_python(path: str) -> bool:
    return path.endswith(PYTHON)


def walk(root: str, exclude: tuple[str, ...] = ()) -> Iterator[os.DirEntry[str]]:
    """Regular files below ``root`` that the index reads, in order. Links to files are followed if these hold Python,
    and links to folders are not.

    ``exclude`` are patterns as in ``.gitignore`` without their special cases: ``data``, ``third_party/*``.
    """
    count, folders = 0, [root]
    while folders and count < _MOST_FILES:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder != root and any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        inner = []
        for entry in entries:
            if excluded(os.path.relpath(entry.path, root), exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in FOREIGN and not entry.name.startswith("."):
                    inner.append(entry.path)
            elif entry.name.endswith(PYTHON + CONFIGURATION) and _is_read(entry):
                count += 1
                yield entry
        folders.extend(reversed(inner))


def belongs(path: str, root: str, exclude: tuple[str, ...] = ()) -> bool:
    """Whether `walk` would visit this file, judged by its name."""
    relative = os.path.relpath(path, root)
    parts = relative.split(os.sep)
    if parts[0] == os.pardir or not path.endswith(PYTHON + CONFIGURATION):
        return False
    if any(part in FOREIGN or part.startswith(".") for part in parts[:-1]):
        return False
    return not any(excluded(os.path.join(*parts[: end + 1]), exclude) for end in range(len(parts)))


def excluded(relative: str, patterns: tuple[str, ...]) -> bool:
    relative = relative.replace(os.sep, "/")
    name = relative.rpartition("/")[2]
    return any(
        fnmatch.fnmatch(relative, pattern.strip("/")) or fnmatch.fnmatch(name, pattern.strip("/"))
        for pattern in patterns
    )


def read(path: str) -> str | None:
    """The file's text; None if it is not a regular file, too large or not UTF-8."""
    try:
        return read_bytes(path, MOST_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None


def _is_read(entry: os.DirEntry[str]) -> bool:
    try:
        follow = is_python(entry.name)
        return entry.is_file(follow_symlinks=follow) and entry.stat(follow_symlinks=follow).st_size <= MOST_BYTES
    except OSError:
        return False
