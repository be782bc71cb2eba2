"""Code that must leave the user's files alone: what it writes goes into copies, folders that it makes are left out, and
what would change a file otherwise raises. Temporary files may be written."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

OF_FILES = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1, "os.chown": 1,
    "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "os.link": 2, "os.symlink": 2, "shutil.rmtree": 1,
    "sqlite3.connect": 1, "torch.save": 2, "torch.from_file": 1,
}  # fmt: skip
"""For these events, the number of leading arguments that may be files to change."""
CHANGES = frozenset({"open", *OF_FILES})
_LARGEST_COPY = 1 << 24  # bytes
_ALSO = {"os.unlink": "os.remove", "os.replace": "os.rename"}
"""Functions with the event of another one."""
_copies: dict[str, str] = {}
"""Where a file of the user's is written instead, by its path, within `_checking`."""
_watched: frozenset[str] = frozenset()
_hooked = False


class Refused(OSError):
    """A trial tried to write a file, start a process or open a connection."""


@contextlib.contextmanager
def keeping_files() -> Iterator[None]:
    """Raises `Refused` in Python code that changes files, but for what can be written elsewhere.

    An audit hook would also find functions that code has imported by name, but it can never be removed and makes every
    later trace slower; so it is used only if it is there already, or if `pathlib` has such names (Python 3.10).
    """
    names = [each for each in (*OF_FILES, *_ALSO) if each not in _INSTEAD]
    others = [(each.rpartition(".")[0], each.rpartition(".")[2], _ALSO.get(each, each)) for each in names]
    with writing_copies(), _checking(others):
        if _hooked or sys.version_info < (3, 11):
            with watching(CHANGES):
                yield
        else:
            yield


@contextlib.contextmanager
def writing_copies() -> Iterator[None]:
    """What Python code or torch writes goes into a copy of the file, which is read from then on. Folders are not made.
    `torch.from_file`, which writes in C++ without an audit event, raises."""
    names = ("builtins.open", "io.open", "os.open", "os.mkdir", "torch.save", "torch.from_file")
    with _checking([(each.split(".")[0], each.split(".")[1], each) for each in names]):
        try:
            yield
        finally:
            _copies.clear()


@contextlib.contextmanager
def _checking(functions: list[tuple[str, str, str]]) -> Iterator[None]:
    """Checks the calls of these functions of modules, if they are there, as these events."""
    places = [(sys.modules.get(module), name, event) for module, name, event in functions]
    real = [(owner, name, getattr(owner, name), event) for owner, name, event in places if hasattr(owner, name)]
    for owner, name, function, event in real:
        setattr(owner, name, _checked(function, event))
    try:
        yield
    finally:
        for owner, name, function, _ in real:
            setattr(owner, name, function)


@functools.cache
def _checked(function: Callable[..., Any], event: str) -> Callable[..., Any]:
    instead = _INSTEAD.get(event)

    def called(*args: Any, **kwargs: Any) -> Any:
        if instead is not None:
            return instead(function, *args, **kwargs)
        check(event, (*args, *kwargs.values()))
        return function(*args, **kwargs)

    return functools.wraps(function)(called)


def _open(function: Callable[..., Any], file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
    writes, new = _writes((file, mode)), isinstance(mode, str) and "x" in mode
    place = _copy_of(file, writes, empty="w" in str(mode) or new)
    if new and place is not file:
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        mode = mode.replace("x", "w")
    return function(place, mode, *args, **kwargs)


def _os_open(function: Callable[..., Any], path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("dir_fd") is not None:
        check("open", (path, None, flags))
        return function(path, flags, *args, **kwargs)
    place = _copy_of(path, _writes((path, None, flags)), empty=bool(flags & (os.O_TRUNC | os.O_EXCL)))
    if flags & os.O_EXCL and place is not path:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        flags &= ~os.O_EXCL
    return function(place, flags, *args, **kwargs)


def _mkdir(function: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> None:
    if _harmless(path) or os.path.lexists(path):  # then it raises
        function(path, *args, **kwargs)


def _save(function: Callable[..., Any], obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
    return function(obj, _copy_of(f, True, empty=True), *args, **kwargs)


_INSTEAD: dict[str, Callable[..., Any]] = {
    "builtins.open": _open, "io.open": _open, "os.open": _os_open, "os.mkdir": _mkdir, "torch.save": _save,
}  # fmt: skip


def _copy_of(file: Any, writes: bool, empty: bool) -> Any:
    """The copy of a file that is, or was, written; itself where that is not the user's. Raises `Refused` for a large
    one."""
    if _harmless(file):
        return file
    path = os.path.abspath(os.fsdecode(file))
    if path in _copies or not writes:
        return _copies.get(path, file)
    there = os.path.isfile(path)
    if there and not empty and os.path.getsize(path) > _LARGEST_COPY:
        raise _refused(f"writing {file!r}")
    number, place = tempfile.mkstemp(suffix=os.path.basename(path)[-100:])
    os.close(number)
    if there and not empty:
        shutil.copyfile(path, place)
    _copies[path] = place
    return place


@contextlib.contextmanager
def watching(events: frozenset[str]) -> Iterator[None]:
    """Refuses these audit events; those of `CHANGES` only if they change a file of the user's."""
    global _hooked, _watched
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked = True
    before, _watched = _watched, _watched | events
    try:
        yield
    finally:
        _watched = before


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event in _watched:  # fast path: each call of id() is an event
        check(event, args)


def check(event: str, args: tuple[Any, ...]) -> None:
    """Raises `Refused` if the event changes a file of the user's, or is not about files."""
    if event == "open":
        if _writes(args) and not _harmless(args[0]):
            raise _refused(f"writing {args[0]!r}")
    elif event not in OF_FILES or not all(map(_harmless, args[: OF_FILES[event]])):
        raise _refused(event)


def _refused(what: str) -> Refused:
    return Refused(f"{what} is not allowed while FX Lens searches for a construction")


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = (*args, None, None)[1:3]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def _harmless(path: Any) -> bool:
    """Temporary files, bytecode of a module that is imported late, and devices."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return True
    text = os.fsdecode(path)
    if text in (":memory:", ""):  # of sqlite
        return True
    text = os.path.abspath(text)
    inside = text.startswith(tuple(os.path.join(each, "") for each in _temporary()))
    return inside or text == os.devnull or os.path.basename(os.path.dirname(text)) == "__pycache__"


def _temporary() -> tuple[str, ...]:
    return tuple(os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)) or ("/tmp", "/var/tmp")
