"""The files that are checked."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Collection

from ..sources.files import FOREIGN
from ..sources.paths import is_below
from ..views.terminal import one_line
from .by_links import below_links

log = logging.getLogger(__name__)

_ROOTS = (".git", "pyproject.toml", "setup.py", "requirements.txt", "README.md")


class CannotCheck(Exception):
    """A path that does not exist or cannot be read, or an invalid configuration."""


def python_files(paths: Collection[str]) -> list[str]:
    """The files, and every ``.py`` file and notebook below the folders, in order, each once, under its first name.
    Links to others of them come last. A folder below them that cannot be read is skipped with a warning.

    Raises:
        CannotCheck: a path does not exist, or is a folder that cannot be read.
    """
    found: dict[str, str] = {}

    def refused(error: OSError) -> None:
        if error.filename in paths:
            raise CannotCheck(f"{error.filename}: {error.strerror}")
        log.warning("fxlens: %s is left out: %s", one_line(str(error.filename)), error.strerror)

    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path, onerror=refused):
                folders[:] = sorted(name for name in folders if name not in FOREIGN and not name.startswith("."))
                inside = (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".ipynb")))
                for each in filter(_can_be_checked, inside):
                    found.setdefault(os.path.abspath(each), each)
        elif os.path.isfile(path):
            found.setdefault(os.path.abspath(path), path)
        else:
            raise CannotCheck(f"{path}: {'not an ordinary file' if os.path.exists(path) else 'no such file or folder'}")
    linked = {*filter(os.path.islink, found), *below_links(found)}
    again = {path for path in linked if os.path.realpath(path) in found.keys() - linked}
    return [each for path, each in found.items() if path not in again] + [
        found[path] for path in found if path in again
    ]


def _can_be_checked(path: str) -> bool:
    """Whether it is a regular file, or cannot be accessed, which is then reported."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except OSError:  # a broken link
        return False


def folder_of(path: str, folder: str) -> str:
    """The workspace of a file: ``folder`` if that contains it, otherwise its repository."""
    path, folder = os.path.abspath(path), os.path.abspath(folder)
    if is_below(path, folder):
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
    """Whether a file can define a model at all; others need not be executed."""
    signs = ("torch", "nn.Module", "Module)", "fxlens:", "def forward")  # the last: of a model of another file
    return "class " in text and any(each in text for each in signs)
