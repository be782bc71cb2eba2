"""Comparison of paths, import names of files, and the user's cache folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from .files import read_source

UNIMPORTABLE = "_fxlens_"
"""What the name of a module starts with whose file cannot be imported by its own name."""
_RELATIVE = re.compile(r"^[ \t]*from[ \t]+(\.+)", re.MULTILINE)


def key(path: str) -> str:
    """A key that is equal for all spellings of one file's path: links resolved, case folded if the system does."""
    return os.path.normcase(os.path.realpath(path))


def is_named(file: str, root: str, path: str) -> bool:
    """Whether ``file``, as it is written in a file of the folder ``root``, is the one at ``path``.

    Links are resolved only for existing paths with the same file name or that are links themselves, since resolving
    thousands of entries takes seconds.
    """
    named = os.path.normpath(os.path.join(root, file))
    alike = _name(named) == _name(path) or os.path.islink(named) or os.path.islink(path)
    return named == path or (alike and os.path.lexists(named) and key(named) == key(path))


def _name(path: str) -> str:
    return os.path.normcase(os.path.basename(path))


def import_name(path: str, text: str | None = None, packages: int = 0) -> tuple[str, str]:
    """The dotted name under which a file is imported, and the folder that must be on the path for it.

    Folders with an ``__init__`` are packages, and as many more as the relative imports of the file need, or as
    ``packages`` says, whatever their names. ``text`` is the file's text, if it differs from the disk. A file such as
    ``model_v1.5.py``, which nothing can import, gets a name that stands for no other.
    """
    folder, file = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(file)[0]
    if "." in stem:
        stem = UNIMPORTABLE + stem.replace("_", "__").replace(".", "_")
    parts = [] if stem == "__init__" else [stem]
    needed = max(packages, _levels(_text(path) if text is None else text))
    while (base := os.path.basename(folder)) and "." not in base:
        if needed <= 0 and not (base.isidentifier() and os.path.isfile(os.path.join(folder, "__init__.py"))):
            break
        folder, needed = os.path.dirname(folder), needed - 1
        parts.insert(0, base)
    return ".".join(parts), folder


def _levels(text: str) -> int:
    """The number of folders that the relative imports of a text go up, counting its own."""
    return max((len(dots) for dots in _RELATIVE.findall(text)), default=0)


def _text(path: str) -> str:
    try:
        return read_source(path)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""


def cache_folder(name: str) -> Path:
    """A folder, which may not exist or be usable, in ``$XDG_CACHE_HOME/fxlens``, ``~/Library/Caches/fxlens`` or
    ``%LOCALAPPDATA%\\fxlens``."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification says to ignore a relative path.
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
        if not os.path.isabs(base):  # $HOME is relative, too: do not cache
            base = os.devnull
    return Path(base) / "fxlens" / name


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Whether a file is one of ``roots``, or lies below one."""
    inside = key(path)
    return any(inside == root or inside.startswith(os.path.join(root, "")) for root in map(key, roots))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is this folder or leads into it, textually, without resolving anything."""
    path, folder = (os.path.normcase(os.path.normpath(each)) for each in (path, folder))
    return path == folder or path.startswith(os.path.join(folder, ""))


def relative(path: str, folder: str = os.curdir) -> str:
    """The path as seen from a folder; unchanged if there is none, such as between drives."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return path
