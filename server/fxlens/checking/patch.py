"""A patch: what fixes would change, as ``git apply`` and ``patch -p1`` take it in the current folder. Both read bytes,
and lines that end at line feeds only; one file that does not fit makes git refuse all of them. Neither follows a link,
so a file has the name under which it really lies there."""

from __future__ import annotations

import difflib
import os

from fxlens.sources.files import Changed, encoded
from fxlens.sources.paths import is_within, relative
from fxlens.views.terminal import one_line

_NO_END = b"\n\\ No newline at end of file\n"


def of_file(path: str, before: str, after: str) -> bytes:
    """The part for one file, in the encoding that it has; of a text that is not saved, in UTF-8.

    Raises:
        OSError: its encoding does not round-trip the rest of it.
        UnicodeEncodeError: its encoding cannot express the new text.
    """
    try:
        old, new = encoded(path, before, after)
    except (Changed, FileNotFoundError):
        old, new = before.encode(), after.encode()
    name = relative(os.path.realpath(path), os.path.realpath(os.curdir)).replace(os.sep, "/")
    sides = _name(f"a/{name}"), _name(f"b/{name}")
    lines = difflib.diff_bytes(difflib.unified_diff, _lines(old), _lines(new), *sides)
    return b"".join(line if line.endswith(b"\n") else line + _NO_END for line in lines)


def why_not(path: str, name: str) -> str | None:
    """Why a patch cannot change a file, which was checked as ``name``; None if it can."""
    if is_within(path, [os.curdir]):
        return None
    path, name = relative(path), relative(name)
    if is_within(path, [name]) and path != name:
        why = f"{one_line(name)}: not in the patch: a link leads from there to {one_line(path)},"
    else:
        why = f"{one_line(path)}: not in the patch: it lies"
    return (
        f"{why} outside of the current folder, where a patch changes nothing. Check it from a folder that contains it"
    )


def _lines(data: bytes) -> list[bytes]:
    """``splitlines`` ends a line at a carriage return, too."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _name(name: str) -> bytes:
    """A file's name as git writes it: quoted if it has characters that ``patch`` does not accept."""
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return os.fsencode(name)
    escaped = (chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:03o}" for each in os.fsencode(name))
    return f'"{"".join(escaped)}"'.encode()
