"""Removing a folder that user code filled, with any nesting and file modes.

Used by both sides, so standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time

__all__ = ["remove_tree"]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def remove_tree(folder: str, seconds: float = 60.0) -> bool:
    """Removes a folder with all that is in it, or a link to one; false if some of it is left. Never raises.

    Links in it are not followed. After so many ``seconds`` the rest is left for the next sweep.
    """
    try:
        if os.path.islink(folder):
            os.unlink(folder)
        elif os.open in os.supports_dir_fd:
            _empty(folder, time.monotonic() + seconds)
            os.rmdir(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    except (OSError, RecursionError):
        return not os.path.lexists(folder)
    return True


def _empty(folder: str, until: float) -> None:
    """Goes down into the first folder and up again by ``..``, with one folder open at a time: no path is longer than a
    name, and nothing recurses."""
    os.chmod(folder, 0o700)
    at = os.open(folder, _FOLDER)
    above: list[tuple[tuple[int, int], str, list[str]]] = []  # the folder, the name below it, its other entries
    folders = _unlink_files(at)
    try:
        while time.monotonic() < until:
            if folders:
                name = folders.pop()
                below = _enter(at, name)
                if below is None:
                    continue
                above.append((_identity(at), name, folders))
                at = _instead(at, below)
                folders = _unlink_files(at)
            elif above:
                identity, name, folders = above.pop()
                at = _instead(at, os.open("..", _FOLDER, dir_fd=at))
                if _identity(at) != identity:
                    return  # folders are being moved
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=at)
            else:
                return
    finally:
        os.close(at)


def _unlink_files(folder: int) -> list[str]:
    """Removes everything but folders; returns the names of the folders."""
    folders = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=folder)
    return folders


def _enter(folder: int, name: str) -> int | None:
    try:
        os.chmod(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return None


def _instead(folder: int, other: int) -> int:
    os.close(folder)
    return other


def _identity(folder: int) -> tuple[int, int]:
    state = os.fstat(folder)
    return state.st_dev, state.st_ino
