"""Targets for saved results: only files written by FX Lens are replaced, unless the user forces it.

What is saved is written beside its place and moved there once it is whole, with digests by which it is known later: an
edit of the user breaks them. Folders are written by fxlib.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fxlens.sources.files import write_whole

_ADVICE = "Choose another one"
_KEY = b"fxlens.sha256"
_ENTRY = 2 + len(_KEY) + 2 + 64


class NotOurs(Exception):
    """Something else exists there; the text says what to do."""


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Refuses what cannot be written, as on a full disk, or under a name that no file can have: the result stays.

    Raises:
        Refused: it cannot be written, or is not ours.
    """
    from . import errors, one_model

    try:
        yield
    except one_model.Refused:
        raise
    except NotOurs as error:
        raise one_model.Refused(str(error)) from None
    except OSError as error:
        raise one_model.Refused(f"{place} cannot be written: {error.strerror or error}") from error
    except Exception as error:
        raise one_model.Refused(f"{place!r} cannot be written: {errors.brief(error)}") from error


def check_folder(folder: str, force: bool, advice: str = _ADVICE) -> None:
    """For fxlib's ``save_folder``; ``advice`` says what to do instead.

    Raises:
        NotOurs: the folder holds something else, or what was changed since it was saved.
        OSError: it cannot be read.
    """
    from fxlib.codegen.saving import is_as_saved

    if not (force or is_as_saved(Path(folder))):
        raise NotOurs(f"{folder} holds files that FX Lens did not write, or that were edited since. {advice}")


def check_file(file: str, force: bool) -> None:
    """For ``save_file``.

    Raises:
        NotOurs: the file is something else, or was changed since it was saved.
        OSError: it cannot be read.
    """
    path = Path(file)
    if path.exists() and not (path.is_file() and (force or _is_sealed(path))):
        raise NotOurs(f"{file} exists, and FX Lens did not write it, or it was edited since. {_ADVICE}")


def save_file(file: str, model: bytes) -> None:
    """Writes a serialized ONNX model whole, or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path = os.path.realpath(file)
    if os.path.exists(path) and not os.access(path, os.W_OK):  # a replacement would not ask for it
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    write_whole(path, model + _seal(hashlib.sha256(model).hexdigest()))


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
