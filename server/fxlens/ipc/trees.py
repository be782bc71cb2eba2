"""Removing a folder that user code filled: however deep it is nested, and whatever its modes are.

Used by both sides, so standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import time
from collections.abc import Iterator

__all__ = ["remove_tree"]

_SECONDS = 10.0
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def remove_tree(folder: str) -> bool:
    """Removes a folder with all that is in it, or a link to one; false where some of it is left. Raises nothing.

    Links in it are not followed. What takes more than ten seconds is left: the next sweep goes on with it.
    """
    try:
        if os.path.islink(folder):
            os.unlink(folder)
        elif os.open in os.supports_dir_fd:
            _empty(folder, time.monotonic() + _SECONDS)
            os.rmdir(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    except (OSError, RecursionError):
        return not os.path.lexists(folder)
    return True


def _empty(folder: str, until: float) -> None:
    """Folders inside folders come up to the top before their own are looked at: no path is longer than two names, and
    nothing recurses."""
    os.chmod(folder, 0o700)
    top = os.open(folder, _FOLDER)
    numbers = itertools.count()
    try:
        waiting = os.listdir(top)
        while waiting and time.monotonic() < until:
            name = waiting.pop()
            if not _unlink(top, name):
                waiting += _lift(top, name, numbers)
    finally:
        os.close(top)


def _lift(top: int, name: str, numbers: Iterator[int]) -> list[str]:
    """Removes a folder directly below ``top``. The folders in it are moved to the top; gives their names there."""
    lifted: list[str] = []
    with contextlib.suppress(OSError):
        os.chmod(name, 0o700, dir_fd=top)
        inside = os.open(name, _FOLDER, dir_fd=top)
        try:
            for entry in os.listdir(inside):
                if not _unlink(inside, entry):
                    above = f".fxlens-{next(numbers)}"
                    os.chmod(entry, 0o700, dir_fd=inside)
                    os.rename(entry, above, src_dir_fd=inside, dst_dir_fd=top)
                    lifted.append(above)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=top)
    return lifted


def _unlink(folder: int, name: str) -> bool:
    """Removes what is no folder; false where it is one."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True
