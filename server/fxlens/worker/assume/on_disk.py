"""Files of the repository for a file name that a constructor failed to open."""

from __future__ import annotations

import functools
import os
from collections import deque

from fxlens.sources.files import FOREIGN

_CONFIGURATIONS = (".yaml", ".yml", ".json", ".cfg")
_TEXTS = (*_CONFIGURATIONS, ".toml", ".ini", ".conf", ".txt")
_MOST_FOLDERS = 500
_MOST_NAMES = 500  # in a folder: larger ones hold data
_MOST = 4


def like(name: str, folder: str) -> list[str]:
    """Paths of text files that a program in ``folder``, or in the one where this process runs, may mean by ``name``:
    those with that name in other folders, otherwise configurations of its type, or of any type; the nearest first."""
    base, kind = os.path.basename(name), os.path.splitext(name)[1]
    here = os.getcwd()
    files = [path for top in dict.fromkeys((folder, here)) for path in _files(top)]
    same = [path for path in files if base and os.path.basename(path) == base]
    kinds = (kind,) if kind else _CONFIGURATIONS
    others = [path for path in files if kind in ("", *_CONFIGURATIONS) and path.endswith(kinds)]
    found = [os.path.relpath(path, here) for path in dict.fromkeys(same or others)]
    return [path for path in found if path != os.path.normpath(name)][:_MOST]


@functools.lru_cache(maxsize=8)
def _files(top: str) -> tuple[str, ...]:
    """Text files with data, nearest to the folder first."""
    found: list[str] = []
    todo, seen = deque([top]), 0
    while todo and (seen := seen + 1) <= _MOST_FOLDERS:
        try:
            with os.scandir(todo.popleft()) as entries:
                inside = [each for _, each in zip(range(_MOST_NAMES), entries, strict=False)]
        except OSError:
            continue
        for each in sorted(inside, key=lambda entry: entry.name):
            if each.is_dir(follow_symlinks=False):
                if not each.name.startswith(".") and each.name not in FOREIGN:
                    todo.append(each.path)
            elif each.name.endswith(_TEXTS):
                found.append(each.path)
    return tuple(found)
