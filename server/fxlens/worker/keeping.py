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
from collections.abc import Callable, Iterable, Iterator
from typing import Any

OF_FILES = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1, "os.chown": 1,
    "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "os.link": 2, "os.symlink": 2, "shutil.rmtree": 1,
    "sqlite3.connect": 1,
}  # fmt: skip
"""For these events, the number of leading arguments that may be files to change."""
CHANGES = frozenset({"open", *OF_FILES})
_LARGEST_COPY = 1 << 24  # bytes
_copies: dict[str, str] = {}
"""Where a file of the user's is written instead, by its path, within `writing_copies`."""
_guards = 0
_watched: frozenset[str] = frozenset()
_hooked = False


class Refused(OSError):
    """Code tried to change a file of the user's, or, in a trial, to start a process or open a connection."""


@contextlib.contextmanager
def keeping_files() -> Iterator[None]:
    """Raises `Refused` in Python code that changes files, but for what can be written elsewhere.

    An audit hook would also find functions that code has imported by name, but it can never be removed and makes every
    later trace slower; so it is used only if it is there already, or if `pathlib` has such names (Python 3.10).
    """
    with writing_copies(), _guarding(each for each in OF_FILES if each not in _INSTEAD):
        if _hooked or sys.version_info < (3, 11):
            with watching(CHANGES):
                yield
        else:
            yield


@contextlib.contextmanager
def writing_copies() -> Iterator[None]:
    """What Python code or torch writes goes into a copy of the file, which is read from then on. Folders are not made.
    `torch.from_file`, which writes in C++ without an audit event, raises."""
    before = dict(_copies)
    try:
        with _guarding(_INSTEAD):
            yield
    finally:
        for path in _copies.keys() - before.keys():
            with contextlib.suppress(OSError):
                os.unlink(_copies[path])  # files that are open stay usable
        _copies.clear()
        _copies.update(before)


@contextlib.contextmanager
def _guarding(names: Iterable[str]) -> Iterator[None]:
    """Guards the calls of these functions of modules, if they are there."""
    global _guards
    places = [(sys.modules.get(name.rpartition(".")[0]), name) for name in names]
    short = [(owner, name, name.rpartition(".")[2]) for owner, name in places]
    real = [(owner, each, getattr(owner, each), name) for owner, name, each in short if hasattr(owner, each)]
    for owner, each, function, name in real:
        setattr(owner, each, _guarded(function, name.replace("builtins.", "io.")))
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1
        for owner, each, function, _ in real:
            setattr(owner, each, function)


@contextlib.contextmanager
def _unguarded() -> Iterator[None]:
    global _guards
    before, _guards = _guards, 0
    try:
        yield
    finally:
        _guards = before


class _Guarded:
    """A function within `_guarding`; code that keeps it longer has the plain function. An object, since a function in
    the body of a class would become a method."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        functools.update_wrapper(self, function)
        self.__module__, _, self.__name__ = name.rpartition(".")
        self.__qualname__ = self.__name__
        self._function, self._event = function, name
        self._instead = _INSTEAD.get(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _guards:
            return self._function(*args, **kwargs)
        if self._instead is not None:
            return self._instead(self._function, *args, **kwargs)
        check(self._event, (*args, *kwargs.values()))
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


@functools.cache
def _guarded(function: Callable[..., Any], name: str) -> _Guarded:
    return _Guarded(function, name)


def _open(function: Callable[..., Any], file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
    text = mode if isinstance(mode, str) else ""
    place = _copy_of(file, _writes((file, mode)), empty="w" in text or "x" in text, added="+" not in text)
    if "x" in text and place is not file:
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        mode = text.replace("x", "w")
    return function(place, mode, *args, **kwargs)


def _os_open(function: Callable[..., Any], path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("dir_fd") is not None:
        check("open", (_in_folder(path, kwargs["dir_fd"]), None, flags))
        return function(path, flags, *args, **kwargs)
    place = _copy_of(path, _writes((path, None, flags)), empty=bool(flags & (os.O_TRUNC | os.O_EXCL)))
    if flags & os.O_EXCL and place is not path:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        flags &= ~os.O_EXCL
    return function(place, flags, *args, **kwargs)


def _mkdir(function: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> None:
    place = _in_folder(path, kwargs.get("dir_fd"))
    if _harmless(place) or os.path.lexists(place):  # then it raises
        function(path, *args, **kwargs)


def _save(function: Callable[..., Any], obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
    return function(obj, _copy_of(f, True, empty=True), *args, **kwargs)


def _from_file(function: Callable[..., Any], filename: Any, shared: Any = None, *args: Any, **kwargs: Any) -> Any:
    if shared and not _harmless(filename):
        raise _refused("torch.from_file with shared=True")
    return function(filename, shared, *args, **kwargs)


def _replace(function: Callable[..., Any], src: Any, dst: Any, **kwargs: Any) -> None:
    copy = _copies.get(_absolute(src))
    if copy is None or kwargs:
        check("os.rename", (src, dst))
        function(src, dst, **kwargs)
    elif _harmless(dst):
        function(_copies.pop(_absolute(src)), dst)
    else:
        _copies[_absolute(dst)] = _copies.pop(_absolute(src))


def _remove(function: Callable[..., Any], path: Any, **kwargs: Any) -> None:
    copy = None if kwargs else _copies.pop(_absolute(path), None)
    if copy is None:
        check("os.remove", (_in_folder(path, kwargs.get("dir_fd")),))
    function(copy or path, **kwargs)


def _rmdir(function: Callable[..., Any], path: Any, **kwargs: Any) -> None:
    check("os.rmdir", (_in_folder(path, kwargs.get("dir_fd")),))
    function(path, **kwargs)


_INSTEAD: dict[str, Callable[..., Any]] = {
    "builtins.open": _open, "io.open": _open, "os.open": _os_open, "os.mkdir": _mkdir, "os.rename": _replace,
    "os.replace": _replace, "os.remove": _remove, "os.unlink": _remove, "os.rmdir": _rmdir, "torch.save": _save,
    "torch.from_file": _from_file,
}  # fmt: skip


def _copy_of(file: Any, writes: bool, empty: bool, added: bool = False) -> Any:
    """The copy of a file that is, or was, written; itself where that is not the user's. ``added``: nothing else of it
    can be read or written. Raises `Refused` for a large one of which more is needed."""
    if _harmless(file):
        return file
    path = _absolute(file)
    if path in _copies or not writes:
        return _copies.get(path, file)
    if not empty and os.path.isfile(path) and os.path.getsize(path) > _LARGEST_COPY:
        if not added:
            raise _refused(f"writing {file!r}")
        empty = True
    with _unguarded():
        number, place = tempfile.mkstemp(suffix=f"-{os.path.basename(path)[-40:]}")
        os.close(number)
        if not empty and os.path.isfile(path):
            shutil.copyfile(path, place)
    _copies[path] = place
    return place


def _absolute(file: Any) -> str:
    return os.path.abspath(os.fsdecode(file)) if isinstance(file, (str, bytes, os.PathLike)) else ""


def _in_folder(path: Any, folder: int | None) -> Any:
    """A path that is relative to an open folder."""
    if folder is None or folder < 0:
        return path
    with contextlib.suppress(OSError):
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    return path


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
    if event in ("os.remove", "os.rmdir") and len(args) > 1 and isinstance(args[1], int):
        args = (_in_folder(args[0], args[1]), *args[1:])
    if event == "open":
        if _writes(args) and not _harmless(args[0]):
            raise _refused(f"writing {args[0]!r}")
    elif event not in OF_FILES or not all(map(_harmless, args[: OF_FILES[event]])):
        raise _refused(event)


def _refused(what: str) -> Refused:
    return Refused(f"{what} is not allowed, since FX Lens leaves your files as they are")


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
