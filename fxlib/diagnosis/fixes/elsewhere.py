"""What other files of the project say: their texts are read and never executed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from itertools import chain, islice, pairwise, takewhile
from pathlib import Path

__all__ = ["mentioned"]

_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg")
_UP = 16  # folders above a file in which its project may begin
_FILES, _BYTES = 6000, 32_000_000  # that are read of a project
_LARGEST = 1_000_000  # and of a file
_NOTEBOOK = 30_000_000  # with its pictures
_CODE = (".py", ".ipynb", ".pyi", ".pyx", ".pyw", ".sh", ".yaml", ".yml", ".toml", ".cfg", "Makefile", "Dockerfile")
_NO_TEXT = (
    ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ico", ".pdf", ".mp4", ".wav", ".mp3", ".flac",
    ".pt", ".pth", ".ckpt", ".bin", ".onnx", ".npy", ".npz", ".pkl", ".h5", ".safetensors", ".parquet", ".so", ".o",
    ".a", ".pyc", ".zip", ".gz", ".tgz", ".xz", ".bz2", ".tar", ".7z", ".whl", ".jar", ".ttf", ".woff", ".woff2",
    ".json", ".jsonl", ".csv", ".tsv", ".xml", ".svg", ".html", ".css", ".js", ".map", ".lock", ".log", ".xyz", ".obj",
)  # fmt: skip
"""The ends of names of data, of which a project may have thousands of files."""
_OTHERS = frozenset(
    {
        "node_modules", "site-packages", "__pycache__", "venv", "env", ".git", ".hg", ".svn", ".tox", ".nox", ".venv",
        ".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs", ".ipynb_checkpoints", ".dvc", "wandb",
    }
)  # fmt: skip
_HEAD = 1024  # bytes by which a text is told from other data
_FRESH = 10  # seconds for which a text that was read is taken for that of the file


def mentioned(file: str, pattern: str, *words: str) -> str | None:
    """The name of another file of the project in which the regular expression is found. Only texts that contain one of
    the words, if any, are searched: to look for these takes a hundredth of the time."""
    return _first(os.path.abspath(file), pattern, words, int(time.monotonic() / _FRESH))


@functools.lru_cache(maxsize=4096)
def _first(file: str, pattern: str, words: tuple[str, ...], now: int) -> str | None:
    wanted, quick = re.compile(pattern.encode()), [each.encode() for each in words] or [b""]
    for path, text in _texts(os.path.dirname(file), _root(file, now), now):
        if path != file and any(word in text for word in quick) and wanted.search(text):
            return os.path.basename(path)
    return None


@functools.lru_cache(maxsize=64)
def _root(file: str, now: int) -> str:
    """The folder of the whole repository, or else of the outermost project around a file."""
    folder = Path(file).parent
    above = [*takewhile(lambda each: not _is_of_all(each), [folder, *folder.parents][:_UP])]
    for marks in ((".git",), _ROOTS):
        marked = [each for each in above if any((each / name).exists() for name in marks)]
        if marked:
            return str(marked[-1])
    # Nothing says where it begins: as far up as there is Python code.
    for inner, outer in pairwise(above):
        if not (any(outer.glob("*.py")) or (inner / "__init__.py").exists()):
            return str(inner)
    return str(above[-1] if above else folder)


def _is_of_all(folder: Path) -> bool:
    """Whether unrelated things lie in a folder: the root, a home, or what everybody may write to, such as /tmp."""
    with contextlib.suppress(OSError, RuntimeError):
        return folder in (folder.parent, Path.home()) or bool(folder.stat().st_mode & stat.S_ISVTX)
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
        if b"\0" in text[:_HEAD]:
            continue  # no text
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
    """Code first, then other texts: scripts without a suffix, and what a README or a workflow runs. Regular files only:
    to open a pipe may take for ever. Of a folder with unrelated things, those that lie in it."""
    todo, code, others = [root], list[str](), list[str]()
    deep = not _is_of_all(Path(root))
    while todo and len(code) < _FILES:
        try:
            entries = sorted(os.scandir(todo.pop(0)), key=lambda each: each.name)
        except OSError:
            continue
        if any(each.name == "pyvenv.cfg" for each in entries):
            continue
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if deep and each.name not in _OTHERS:
                    todo.append(each.path)
            elif each.is_file(follow_symlinks=False) and not each.name.endswith(_NO_TEXT):
                (code if each.name.endswith(_CODE) else others).append(each.path)
    return islice(chain(code, others), _FILES)
