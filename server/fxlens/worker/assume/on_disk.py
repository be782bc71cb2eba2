"""Files of the repository that a constructor may mean by a name that it opens in vain."""

from __future__ import annotations

import functools
import os

_CONFIGURATIONS = (".yaml", ".yml", ".json", ".cfg")
_MOST_FILES = 5000
_MOST = 4


def like(name: str, folder: str) -> list[str]:
    """Paths of files that a program in ``folder``, or in the one where this process runs, may mean by ``name``: those
    with that name in other folders, else configurations of its type, or of any; the nearest first."""
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
    """Data files below a folder, those nearest to it first."""
    found: list[str] = []
    seen = 0
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__")) and each != "node_modules")
        seen += len(names) + len(folders)
        found += [os.path.join(folder, each) for each in sorted(names) if not each.endswith((".py", ".pyc"))]
        if seen > _MOST_FILES:
            break
    return tuple(sorted(found, key=lambda path: path.count(os.sep)))
