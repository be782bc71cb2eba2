"""Targets for saved results: only files written by FX Lens are replaced, unless the user forces it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_HINT = "Choose another one, or replace it with --force"


class NotOurs(Exception):
    """Something else exists there; the text says what to do."""


def check_folder(folder: str, marks: Mapping[str, bytes], force: bool) -> None:
    """``marks`` are files of such a folder, with their first characters.

    Raises:
        NotOurs: the folder holds something else.
    """
    path = Path(folder)
    if force or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not all(_begins(path / name, start) for name, start in marks.items()):
        raise NotOurs(f"{folder} holds files that FX Lens did not write. {_HINT}")


def check_file(file: str, mark: bytes, force: bool) -> None:
    """``mark`` occurs near the start of such a file.

    Raises:
        NotOurs: the file is something else.
    """
    path = Path(file)
    if not force and path.exists() and not (path.is_file() and mark in _start(path)):
        raise NotOurs(f"{file} exists, and FX Lens did not write it. {_HINT}")


def _begins(path: Path, start: bytes) -> bool:
    return path.is_file() and _start(path).startswith(start)


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(200)
