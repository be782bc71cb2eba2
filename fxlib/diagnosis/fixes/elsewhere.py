"""What other files of the project say: their texts are read and never executed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

__all__ = ["mentioned"]

_ROOTS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_UP = 5  # folders above a file in which its project may begin
_FILES, _BYTES = 3000, 24_000_000  # that are read of a project
_LARGEST = 1_000_000  # and of a file
_NOTEBOOK = 30_000_000  # with its pictures
_SUFFIXES = (".py", ".ipynb", ".pyi", ".sh", ".yaml", ".yml", "Makefile", "Dockerfile")
_OTHERS = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env", "build", "dist"})
_FRESH = 10  # seconds for which a text that was read is taken for that of the file


def mentioned(file: str, *patterns: str) -> str | None:
    """The name of another file of the project in which each of the regular expressions is found. They are looked for
    in their order, so a quick one first spares the others."""
    return _first(os.path.abspath(file), patterns, int(time.monotonic() / _FRESH))


@functools.lru_cache(maxsize=4096)
def _first(file: str, patterns: tuple[str, ...], now: int) -> str | None:
    return next((os.path.basename(path) for path, _ in _matching(file, patterns, now)), None)


def _matching(file: str, patterns: Iterable[str], now: int) -> Iterator[tuple[str, bytes]]:
    wanted = [re.compile(each.encode()) for each in patterns]
    for path, text in _texts(os.path.dirname(file), _root(file, now), now):
        if path != file and all(each.search(text) for each in wanted):
            yield path, text


@functools.lru_cache(maxsize=64)
def _root(file: str, now: int) -> str:
    folder = Path(file).parent
    above = [folder, *folder.parents][:_UP]
    marked = next((each for each in above if any((each / name).exists() for name in _ROOTS)), None)
    if marked is not None:
        return str(marked)
    # Nothing says where it begins: as far up as there is Python code.
    for inner, outer in pairwise(above):
        if _is_of_all(outer) or not (any(outer.glob("*.py")) or (inner / "__init__.py").exists()):
            return str(inner)
    return str(folder)


def _is_of_all(folder: Path) -> bool:
    """Whether unrelated things lie in a folder: a home, or what everybody may write to, such as /tmp."""
    with contextlib.suppress(OSError, RuntimeError):
        return folder == Path.home() or bool(folder.stat().st_mode & stat.S_ISVTX)
    return False


@functools.lru_cache(maxsize=2)
def _texts(folder: str, root: str, now: int) -> list[tuple[str, bytes]]:
    """Those of the folder of a file, and of as much of its project as may be read."""
    found, left = [], _BYTES
    for path in dict.fromkeys([*_files(folder), *_files(root)]):
        try:
            most = _NOTEBOOK if path.endswith(".ipynb") else _LARGEST
            if left <= 0 or os.path.getsize(path) > most:
                continue
            text = Path(path).read_bytes()
        except OSError:
            continue
        if path.endswith(".ipynb"):
            text = _of_cells(text)
        found.append((path, text))
        left -= len(text)
    return found


def _of_cells(text: bytes) -> bytes:
    """The sources of a notebook, without its outputs; all of it where it is none."""
    try:
        cells = json.loads(text)["cells"]
        return "\n".join("".join(each["source"]) for each in cells).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def _files(root: str) -> Iterator[str]:
    """Regular files only: to open a pipe may take for ever."""
    todo, count = [root], 0
    while todo and count < _FILES:
        try:
            entries = sorted(os.scandir(todo.pop(0)), key=lambda each: each.name)
        except OSError:
            continue
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if not each.name.startswith(".") and each.name not in _OTHERS:
                    todo.append(each.path)
            elif each.is_file(follow_symlinks=False) and (each.name.endswith(_SUFFIXES) or _is_program(each)):
                count += 1
                yield each.path


def _is_program(entry: os.DirEntry[str]) -> bool:
    """Whether it may be a script whose name has no suffix."""
    return "." not in entry.name and bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR)
