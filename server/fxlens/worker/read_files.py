"""Files of the workspace that user code reads, such as configurations, and folders that it lists: a result is out of
date when one of them changes.

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
from collections.abc import Callable, Iterable
from typing import Any

from fxlens.sources.files import names_in, only_names

_LARGEST = 1 << 20  # bytes: larger ones are data or weights, on which graphs do not depend
_MOST = 1000
_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
"""The code of FX Lens, which reads tests and configurations that have dependencies of their own."""
_INSTALLED = re.compile("(site|dist)-packages")
_PYTHON = (os.path.join(os.path.dirname(os.__file__), ""), "<frozen ")
_open = open
_read: dict[str, None] = {}
_listed: dict[str, str | None] = {}
"""The names in each folder when it was first listed."""
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
            if isinstance(mode, str) and not sys._getframe(1).f_code.co_filename.startswith(_OURS):
                _note(file, _written if any(letter in mode for letter in "wxa+") else _read)

    def __reduce__(self) -> str:
        return "open"


class _Listing:
    """``os.listdir`` or ``os.scandir``."""

    __module__ = "os"

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        path = args[0] if args else kwargs.get("path")
        if not isinstance(path, int) and not _is_ours(sys._getframe(1)):
            _note_names("." if path is None else path)
        return self._function(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


def _is_ours(frame: Any) -> bool:
    """Whether FX Lens lists a folder, perhaps by a function of Python such as ``os.walk``."""
    while frame is not None and frame.f_code.co_filename.startswith(_PYTHON) and not _is_installed(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_ours())


@functools.cache
def _ours() -> tuple[str, str]:
    import fxlib

    return _OURS, os.path.join(os.path.dirname(fxlib.__file__), "")


def _is_installed(frame: Any) -> bool:
    return _INSTALLED.search(frame.f_code.co_filename) is not None


def note(roots: Iterable[str]) -> None:
    """From now on, what is read below these folders."""
    global _roots
    spelled = [spelling(root) for root in roots for spelling in (os.path.abspath, os.path.realpath)]
    _roots = tuple(os.path.join(root, "") for root in dict.fromkeys(spelled))
    if isinstance(builtins.open, _Noting):
        return
    noting: Any = _Noting()
    builtins.open = io.open = noting
    for name in ("listdir", "scandir"):
        listing: Any = _Listing(getattr(os, name))
        setattr(os, name, listing)
        os.supports_fd.add(listing)
        if (accessor := getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)) is not None:
            setattr(accessor, name, listing)  # of Python 3.10
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


def noted() -> list[str]:
    """The files that were read, or that were to be read and are not there, and the folders that were listed. Those that
    are written, too, are none."""
    folders = [folder for folder, names in _listed.items() if names_in(folder) == names]
    return [*(path for path in _read if path not in _written and _may_matter(path)), *folders]


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
        if path.startswith(_roots) and not path.endswith(".pyc") and "\0" not in path:
            path.encode()
            into.update({path: None}) if isinstance(into, dict) else into.add(path)


def _note_names(folder: Any) -> None:
    if len(_listed) < _MOST:
        with contextlib.suppress(Exception):  # as for a file
            path = only_names(os.path.abspath(os.fsdecode(folder)))
            if path.startswith(_roots) and path not in _listed and not _INSTALLED.search(path):
                path.encode()
                _listed[path] = names_in(path)


def _may_matter(path: str) -> bool:
    try:
        return os.stat(path).st_size <= _LARGEST
    except OSError:
        return True
