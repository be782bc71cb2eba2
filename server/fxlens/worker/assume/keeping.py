"""Code that must leave the user's files alone: what would change one raises; temporary files may be written."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

OF_FILES = {
    "os.remove": 1, "os.rename": 2, "os.mkdir": 1, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1, "os.chown": 1,
    "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "os.link": 2, "os.symlink": 2, "shutil.rmtree": 1,
    "sqlite3.connect": 1, "torch.save": 2, "torch.from_file": 1,
}  # fmt: skip
"""For these events, the number of leading arguments that may be files to change."""
CHANGES = frozenset({"open", *OF_FILES})
_ALSO = {"os.unlink": "os.remove", "os.replace": "os.rename"}
"""Functions with the event of another one."""
_watched: frozenset[str] = frozenset()
_hooked = False


class Refused(OSError):
    """A trial tried to write a file, start a process or open a connection."""


@contextlib.contextmanager
def keeping_files() -> Iterator[None]:
    """Raises `Refused` in Python code that changes files.

    An audit hook would also find functions that code has imported by name, but it can never be removed and makes every
    later trace slower; so it is used only if it is there already, or if `pathlib` has such names (Python 3.10).
    """
    opening = [("builtins", "open", "open"), ("io", "open", "open"), ("os", "open", "os.open")]
    others = [(each.split(".")[0], each.split(".")[1], _ALSO.get(each, each)) for each in (*OF_FILES, *_ALSO)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_checking([*opening, *others]))
        if _hooked or sys.version_info < (3, 11):
            stack.enter_context(watching(CHANGES))
        yield


def keeping_from_saving() -> contextlib.AbstractContextManager[None]:
    """The same for functions that write in C++, without an audit event."""
    return _checking([("torch", name, f"torch.{name}") for name in ("save", "from_file")])


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
    def called(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if event == "os.open":
            check("open", (given[0], None, *given[1:]))
        elif event == "open":
            check("open", (given[0], kwargs.get("mode", "r") if len(args) < 2 else args[1]))
        else:
            check(event, given)
        return function(*args, **kwargs)

    return functools.wraps(function)(called)


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
