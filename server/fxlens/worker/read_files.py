"""Files that user code reads, such as configurations, and in the workspace folders that it lists and paths at which it
looks whether something is there; and environment variables: a result is out of date when one of them changes.

Python's audit events would report every way of reading, but slow each call of ``id()``, which a trace calls ten
thousand times.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib._bootstrap_external as machinery
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fxlens.record import ALL_VARIABLES
from fxlens.sources.files import kind_of, names_in, only_names, only_there

_LARGEST = 1 << 20  # bytes: larger ones are data or weights, on which graphs do not depend
_MOST = 10_000
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
"""The code of FX Lens, which reads tests and configurations that have dependencies of their own."""
_KEEPING = os.path.join(_OURS, "worker", "keeping.py")
"""Calls in place of the user's code."""
_INSTALLED = re.compile("(site|dist)-packages")
_PYTHON = (os.path.join(os.path.dirname(os.__file__), ""), "<frozen ")
_SYSTEM = ("/dev/", "/etc/", "/proc/", "/sys/", "/usr/")
_GIVEN = re.compile("FXLENS_.*|TMPDIR|TEMP|TMP")
"""Environment variables that FX Lens sets for its workers."""
_WRITES = re.compile("[wxa+]")
_open = open
_read: dict[str, None] = {}
_listed: dict[str, tuple[str | None, frozenset[str]]] = {}
"""The state of each folder when it was first listed, and the names in it."""
_looked_at: dict[str, str | None] = {}
"""What was at each path when it was first looked at."""
_variables: dict[str, None] = {}
_replaced: list[tuple[Any, str, Any]] = []
_written: set[str] = set()
_roots: tuple[str, ...] = ()


class _Noting:
    """``open``. An object, since a function in the body of a class would become a method."""

    __name__ = __qualname__ = "open"
    __module__ = "io"
    __doc__ = open.__doc__
    __signature__ = inspect.signature(open)

    def __call__(self, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return _open(file, mode, *args, **kwargs)
        finally:
            caller = sys._getframe(1)
            while caller.f_back is not None and caller.f_code.co_filename == _KEEPING:
                caller = caller.f_back
            if isinstance(mode, str) and not caller.f_code.co_filename.startswith(_OURS):
                for into in ([_read] if "r" in mode else []) + ([_written] if _WRITES.search(mode) else []):
                    _note(file, into)

    def __reduce__(self) -> str:
        return "open"


class _Looking:
    """``os.listdir`` and the like: its paths are noted before the call."""

    __module__ = "os"

    def __init__(self, function: Callable[..., Any], note: Callable[..., None]) -> None:
        self._function, self._note = function, note
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        paths = [*args[:2], *(kwargs[name] for name in ("path", "src", "dst") if name in kwargs)]
        paths = [each for each in paths if each is not None] or ["."]
        inside = not isinstance(paths[0], int) and kwargs.get("dir_fd") is None
        everywhere = self._note in (_note_opened, _note_changes)
        if inside and (everywhere or not all(map(_is_outside, paths))) and self._is_of_user(sys._getframe(1)):
            self._note(*paths)
        return self._function(*args, **kwargs)

    def _is_of_user(self, frame: Any) -> bool:
        return self._note is _note_changes or not _is_ours(frame)  # `made_folders` makes them for the user's code

    def __reduce__(self) -> str:
        return self.__name__


def _is_outside(path: Any) -> bool:
    return isinstance(path, int) or (
        isinstance(path, str) and path.startswith(os.sep) and not (path + os.sep).startswith(_roots)
    )


def _is_ours(frame: Any) -> bool:
    """Whether FX Lens calls, perhaps by a function of Python such as ``os.walk``."""
    caller = _caller(frame)
    return caller is not None and caller.f_code.co_filename.startswith(_ours())


def _caller(frame: Any) -> Any:
    """The first frame that is not of Python's own modules."""
    while frame is not None and (
        frame.f_code.co_filename == _KEEPING
        or (frame.f_code.co_filename.startswith(_PYTHON) and not _is_installed(frame))
    ):
        frame = frame.f_back
    return frame


@functools.cache
def _ours() -> tuple[str, str]:
    import fxlib

    return _OURS, os.path.join(os.path.dirname(fxlib.__file__), "")


def _is_installed(frame: Any) -> bool:
    return _INSTALLED.search(frame.f_code.co_filename) is not None


@functools.cache
def _installed() -> tuple[str, ...]:
    """What comes with Python, the system or FX Lens, and temporary files."""
    temporary = filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, *temporary}
    return (*_SYSTEM, *_ours(), *(os.path.join(each, "") for each in folders))


def note(roots: Iterable[str]) -> None:
    """From now on, what is read, and how else code looks at what is below these folders."""
    global _roots
    spelled = [spelling(root) for root in roots for spelling in (os.path.abspath, os.path.realpath)]
    _roots = tuple(os.path.join(root, "") for root in dict.fromkeys(spelled))
    if _replaced:
        return
    _installed()  # importing would look at files
    noting: Any = _Noting()
    _replace(builtins, "open", noting)
    _replace(io, "open", noting)
    for name, note in _NOTES.items():
        function = getattr(os, name)
        looking: Any = _Looking(function, note)
        _replace(os, name, looking)
        for able in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if function in able:
                able.add(looking)
        if hasattr(accessor := getattr(sys.modules.get("pathlib"), "_NormalAccessor", None), name):
            _replace(accessor, name, looking)  # of Python 3.10
    for module, name in (("bz2", "_builtin_open"), ("lzma", "open"), ("tokenize", "_builtin_open")):
        if vars(sys.modules.get(module, io)).get(name) is _open:
            setattr(sys.modules[module], name, noting)
    openers = getattr(sys.modules.get("numpy.lib._datasource"), "_file_openers", None)
    if openers is not None:
        with contextlib.suppress(Exception):
            openers._load()
            openers._file_openers[None] = noting
    io.open_code = _also_noting(io.open_code)
    # Modules that are executed and not imported, and `pkgutil.get_data`.
    for owner, name in ((machinery.SourceFileLoader, "path_stats"), (machinery.FileLoader, "get_data")):
        setattr(owner, name, _also_noting(getattr(owner, name)))


def end() -> None:
    """No longer, because torch.compile would describe our functions in its messages."""
    while _replaced:
        owner, name, before = _replaced.pop()
        setattr(owner, name, before)


def _replace(owner: Any, name: str, by: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name)))
    setattr(owner, name, by)


def note_variables() -> None:
    """From now on, which environment variables Python code reads: all of them, if code of the workspace copies or lists
    them; for other code, such as what starts a program, that does not count."""
    read, names = os._Environ.__getitem__, os._Environ.__iter__
    copied: list[str] = []

    def reading(environment: Any, name: Any) -> Any:
        if copied and name == copied[-1]:
            copied.pop()
        elif isinstance(name, str) and not _GIVEN.fullmatch(name):
            _variables[name] = None
        return read(environment, name)

    def copying(environment: Any) -> Iterator[str]:
        copied[:] = reversed(found := list(names(environment)))
        if (frame := _caller(sys._getframe(1))) is not None and frame.f_code.co_filename.startswith(_roots):
            _variables[ALL_VARIABLES] = None
        return iter(found)

    os._Environ.__getitem__, os._Environ.__iter__ = reading, copying  # type: ignore[method-assign,assignment]


def noted() -> list[str]:
    """The files that were read, or that were to be read and are not there, the folders that were listed, and where the
    code looked otherwise; without those that are `written`, too."""
    return [*_files(), *looked_at()]


def written() -> list[str]:
    """The files that the code has read or looked at, and written itself."""
    return sorted(_written.intersection((*_read, *_looked_at)))


def _files() -> list[str]:
    return [path for path in _read if path not in _written and _may_matter(path)]


def looked_at() -> dict[str, str | None]:
    """What does not count by its content (`without_content`), with its state when it was first looked at."""
    folders = {folder: state for folder, (state, names) in _listed.items() if not _written_by_itself(folder, names)}
    known = {*_files(), *_written, *map(os.path.normpath, _listed)}
    return {**folders, **{only_there(path): kind for path, kind in _looked_at.items() if path not in known}}


def _written_by_itself(folder: str, names: frozenset[str]) -> bool:
    """Whether the code has changed the names in a folder that had these, and nobody else has."""
    changed = _names(folder) ^ names
    return bool(changed) and all(os.path.join(folder, name) in _written for name in changed)


def _names(folder: str) -> frozenset[str]:
    with contextlib.suppress(OSError):
        return frozenset(os.listdir(folder))
    return frozenset()


def variables() -> list[str]:
    """The environment variables that were read."""
    return sorted(_variables)


def _also_noting(function: Callable[..., Any]) -> Callable[..., Any]:
    def noting(*args: Any) -> Any:
        _note(args[-1], _read)
        return function(*args)

    return noting


def _note(file: Any, into: Any) -> None:
    if not isinstance(file, (str, bytes, os.PathLike)) or len(into) >= _MOST:
        return
    with contextlib.suppress(Exception):  # the folder that it is relative to is gone, or no file can have this name
        path = os.path.abspath(os.fsdecode(file))
        inside = path.startswith(_roots) or not (path.startswith(_installed()) or _INSTALLED.search(path))
        if inside and not path.endswith(".pyc") and "\0" not in path:
            path.encode()
            into.update({path: None}) if isinstance(into, dict) else into.add(path)


def _note_names(folder: Any, *_: Any) -> None:
    if len(_listed) < _MOST:
        with contextlib.suppress(Exception):  # as for a file
            path = only_names(os.path.abspath(os.fsdecode(folder)))
            if path.startswith(_roots) and path not in _listed and not _INSTALLED.search(path):
                path.encode()
                _listed[path] = names_in(path), _names(path)


def _note_changes(*paths: Any) -> None:
    for path in paths:
        _note(path, _written)


def _note_opened(path: Any, flags: Any = 0, *_: Any) -> None:
    _note(path, _written if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else _read)


def _note_look(at: Any, *_: Any) -> None:
    if len(_looked_at) < _MOST:
        with contextlib.suppress(Exception):  # as for a file
            path = os.path.abspath(os.fsdecode(at))
            if path.startswith(_roots) and path not in _looked_at and not _INSTALLED.search(path):
                path.encode()
                _looked_at[path] = kind_of(path)


def _note_link(at: Any, *_: Any) -> None:
    """``os.path.realpath`` asks of each folder above a file, most of which are no links."""
    if kind_of(os.fsdecode(at)) not in ("file", "folder"):
        _note_look(at)


_NOTES: dict[str, Callable[..., None]] = {
    "listdir": _note_names, "scandir": _note_names, "stat": _note_look, "access": _note_look, "open": _note_opened,
    "lstat": _note_link, "readlink": _note_link,
    **dict.fromkeys(("link", "mkdir", "remove", "rename", "replace", "rmdir", "symlink", "unlink"), _note_changes),
}  # fmt: skip


def _may_matter(path: str) -> bool:
    try:
        return os.stat(path).st_size <= _LARGEST
    except OSError:
        return True
