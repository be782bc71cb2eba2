"""Folders that are saved whole or not at all, with digests by which they are known later: an edit of the user breaks
them.

What is saved is written into a hidden folder and moved from there. Its process holds a lock on that folder, which the
system drops with the process: the next save ends what a killed one had begun.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from errno import EISDIR
from pathlib import Path
from typing import Any

import torch

__all__: list[str] = []

_DIGESTS = "fxlens-saved.json"
_HIDDEN = re.compile(r"\.fxlens-[0-9a-f]{16}")
_REPLACED = ".replaced"  # within a hidden folder


def save_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Has a folder written whole, or not at all. Of an existing folder, files with other names stay.

    Args:
        write: called with an empty folder; writes the files.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(folder))
    exists = path.exists()
    above = [each for each in path.parents if not each.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        with _hidden(path if exists else path.parent) as made:
            write(made)
            new = {each.name: _digest(each) for each in made.iterdir()}
            (made / _DIGESTS).write_text(json.dumps(new, indent=1), encoding="utf-8")
            if exists:
                _move_up(made, new)
            else:
                made.rename(path)
    except BaseException:
        for each in above:
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def is_as_saved(folder: Path) -> bool:
    """Whether nothing of others is lost if a folder is replaced: it is empty, or all in it is as it was saved.

    Raises:
        OSError: it cannot be read.
    """
    _tidy(Path(os.path.realpath(folder)))
    if not folder.is_dir():
        return not folder.exists()
    there = {each.name for each in folder.iterdir() if each.name != "__pycache__" and not _HIDDEN.fullmatch(each.name)}
    known = _digests(folder)
    return not there or (there == {_DIGESTS, *known} and all(_digest(folder / name) == known[name] for name in known))


def save_object(content: object, path: Path, **options: Any) -> None:
    """``torch.save`` to an open file: for a path, torch raises an error of its own, that does not say that the disk is
    full.

    Raises:
        OSError: it cannot be written.
    """
    with open(path, "wb") as file:
        try:
            torch.save(content, file, **options)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def _digests(folder: Path) -> dict[str, str]:
    """The files of a saved folder with the digests that they had then; empty for another folder."""
    try:
        found = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: each for name, each in found.items() if os.path.basename(name) == name}


def _digest(path: Path) -> str:
    """Of a file; empty if it is none."""
    if not path.is_file():
        return ""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def _hidden(where: Path) -> Iterator[Path]:
    """A new hidden folder, which is removed at the end."""
    while True:
        made = where / f".fxlens-{secrets.token_hex(8)}"
        made.mkdir()
        with _locked(made, wait=True):
            if not made.exists():  # another save took it for that of a killed one, since it was not locked yet
                continue
            try:
                yield made
            finally:
                _end(made)
            return


def _tidy(folder: Path) -> None:
    """Ends what killed processes had begun to save in a folder, or beside it. Only this user's hidden folders, and none
    reached by a link."""
    for where in (folder.parent, folder):
        with contextlib.suppress(OSError), os.scandir(where) as entries:
            for entry in entries:
                if _HIDDEN.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError), _locked(Path(entry.path), wait=False) as locked:
                        if locked:
                            _end(Path(entry.path))


@contextlib.contextmanager
def _locked(folder: Path, wait: bool) -> Iterator[bool]:
    """Holds the folder's lock within the block. Yields False if another process has it, the folder is gone or another
    user's, or the system has no locks."""
    lock, held = -1, False
    try:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            held = os.fstat(lock).st_uid == os.getuid()
        yield held
    finally:
        if lock >= 0:
            os.close(lock)


def _move_up(made: Path, new: Mapping[str, str]) -> None:
    """Moves the new files from a hidden folder into the one around it, and those out that they replace, or that are of
    the earlier save. The last step, which moves the digests, makes it valid: until then `_end` puts all back."""
    folder, replaced = made.parent, made / _REPLACED
    before = _digests(folder)
    old = [name for name in before.keys() - new.keys() if before[name] and _digest(folder / name) == before[name]]
    replaced.mkdir()
    for name in (*old, *new):
        if (folder / name).is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(folder / name))
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder / name, replaced / name)
        if name in new:
            os.replace(made / name, folder / name)
    os.replace(made / _DIGESTS, folder / _DIGESTS)


def _end(made: Path) -> None:
    """Removes a hidden folder; what it had begun to replace is put back.

    Raises:
        OSError: it cannot be put back, and stays in the hidden folder.
    """
    replaced = made / _REPLACED
    if replaced.is_dir() and (made / _DIGESTS).exists():
        for name in _digests(made):
            if not os.path.lexists(made / name):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(made.parent / name, made / name)
        for each in replaced.iterdir():
            os.replace(each, made.parent / each.name)
    (made / _DIGESTS).unlink(missing_ok=True)  # first, so that a removal that is killed puts nothing back
    shutil.rmtree(made, ignore_errors=True)
