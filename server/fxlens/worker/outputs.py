"""Targets for saved results: only files written by FX Lens are replaced, unless the user forces it.

What is saved is written beside its place and moved there once it is whole, with digests by which it is known later: an
edit of the user breaks them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fxlens.sources.files import write_whole

_HINT = "Choose another one, or replace it with --force"
_DIGESTS = "fxlens-saved.json"
_BEGUN = ".fxlens-"
_KEY = b"fxlens.sha256"
_ENTRY = 2 + len(_KEY) + 2 + 64


class NotOurs(Exception):
    """Something else exists there; the text says what to do."""


def check_folder(folder: str, marks: Mapping[str, bytes], force: bool) -> None:
    """``marks`` are files of such a folder, with their first characters.

    Raises:
        NotOurs: the folder holds something else.
    """
    path = Path(folder)
    if force or _is_free(path):
        return
    if not all(_begins(path / name, start) for name, start in marks.items()):
        raise NotOurs(f"{folder} holds files that FX Lens did not write. {_HINT}")


def check_package(folder: str, force: bool) -> None:
    """For ``save_package``.

    Raises:
        NotOurs: the folder holds something else, or what was changed since it was saved.
        OSError: it cannot be read.
    """
    path = Path(folder)
    if force or _is_free(path):
        return
    known = _digests(path)
    there = {each.name for each in path.iterdir() if not _is_of_no_account(each)} if path.is_dir() else set()
    if not known or there != {_DIGESTS, *known} or any(_digest(path / name) != known[name] for name in known):
        raise NotOurs(f"{folder} holds files that FX Lens did not write, or that were edited since. {_HINT}")


def save_package(folder: str, write: Callable[[Path], None]) -> None:
    """Has a folder written whole, or not at all.  Of an existing folder, files with other names stay.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(folder))
    exists = path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    made = (path if exists else path.parent) / f"{_BEGUN}{secrets.token_hex(8)}"
    made.mkdir()
    try:
        write(made)
        new = {each.name: _digest(each) for each in made.iterdir()}
        (made / _DIGESTS).write_text(json.dumps(new, indent=1), encoding="utf-8")
        if exists:
            _move_into(made, path, new)
        else:
            made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def check_file(file: str, force: bool) -> None:
    """For ``save_file``.

    Raises:
        NotOurs: the file is something else, or was changed since it was saved.
        OSError: it cannot be read.
    """
    path = Path(file)
    if path.exists() and not (path.is_file() and (force or _is_sealed(path))):
        raise NotOurs(f"{file} exists, and FX Lens did not write it, or it was edited since. {_HINT}")


def save_file(file: str, model: bytes) -> None:
    """Writes a serialized ONNX model whole, or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path = os.path.realpath(file)
    if os.path.exists(path) and not os.access(path, os.W_OK):  # a replacement would not ask for it
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    write_whole(path, model + _seal(hashlib.sha256(model).hexdigest()))


def _is_free(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _is_of_no_account(path: Path) -> bool:
    """Bytecode, and what was begun by a process that was killed."""
    return path.name == "__pycache__" or path.name.startswith(_BEGUN)


def _digests(folder: Path) -> dict[str, str]:
    """The files of a saved folder with the digests that they had then; empty for another folder."""
    try:
        found = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str:
    """Of a file; empty if it is none."""
    if not path.is_file():
        return ""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _move_into(made: Path, folder: Path, new: Mapping[str, str]) -> None:
    """Moves the new files into a folder, and removes those of the earlier save that it does not have."""
    before = _digests(folder)
    for name in (*new, _DIGESTS):
        os.replace(made / name, folder / name)
    for name in before.keys() - new.keys():
        if os.path.basename(name) == name and before[name] and _digest(folder / name) == before[name]:
            (folder / name).unlink()


def _seal(digest: str) -> bytes:
    """The digest as one more of the model's ``metadata_props``, which may follow the rest of a protobuf message."""
    entry = bytes([0x0A, len(_KEY)]) + _KEY + bytes([0x12, len(digest)]) + digest.encode()
    return bytes([14 << 3 | 2, len(entry)]) + entry


def _is_sealed(path: Path) -> bool:
    """Whether a file is as ``save_file`` wrote it."""
    size = path.stat().st_size - _ENTRY - 2
    if size < 0:
        return False
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while size and (data := file.read(min(size, 1 << 20))):
            digest.update(data)
            size -= len(data)
        return file.read() == _seal(digest.hexdigest())


def _begins(path: Path, start: bytes) -> bool:
    return path.is_file() and _start(path).startswith(start)


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(200)
