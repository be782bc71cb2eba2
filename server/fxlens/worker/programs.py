"""Programs that files of the workspace start, such as ``git rev-parse HEAD``, pip or nvcc: none.  Looking at a file
must not install, build or run anything.  What packages start on their own is left alone."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from . import outside
from .placeholders import placeholder_finder

_PASSING_ON = ("os", "subprocess", "webbrowser", "asyncio", "pty", __name__)
"""Modules and packages that start what others ask them for."""
_HANDLES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_CAUGHT = frozenset({"OSError", "IOError", "EnvironmentError", "FileNotFoundError", "Exception", "BaseException"})
_NO_PROCESS = 1 << 30
"""The number of a process that has ended: above all that there are."""
_LONGEST = 80


def turn_off() -> None:
    """From now on, a program that a line of the workspace starts has ended well and said nothing.  Where the code
    handles that there is no such program, there is none."""
    if getattr(subprocess.Popen, "_fxlens_off", False):
        return
    subprocess.Popen._fxlens_off = True  # type: ignore[attr-defined]
    execute, system = subprocess.Popen._execute_child, os.system  # type: ignore[attr-defined]
    signature = inspect.signature(execute)

    def execute_child(self: Any, args: Any, *more: Any, **named: Any) -> None:
        asking = _asking()
        if asking is None:
            execute(self, args, *more, **named)
            return
        # asyncio waits for the end of the process by other ways than a return code.
        handled = _is_handled(asking) or _package(sys._getframe(2)) == "asyncio"
        _note(args, asking, handled)
        if handled:
            raise _not_found(args)
        given = signature.bind(self, args, *more, **named).arguments
        self._close_pipe_fds(*(given[each] for each in _HANDLES))  # whoever reads what it says gets the end
        self.pid, self.returncode = _NO_PROCESS, 0

    def system_(command: Any) -> int:
        asking = _asking()
        if asking is None:
            return system(command)
        _note(command, asking, False)
        return 0

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]
    os.system = system_
    with contextlib.suppress(ImportError):  # not on Windows
        import pty

        pty.spawn = _failing(pty.spawn, 0)
    for name in dir(os):
        if name.startswith(("exec", "spawn", "posix_spawn", "startfile")):
            setattr(os, name, _failing(getattr(os, name), 1 if name.startswith("spawn") else 0))


def _failing(original: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A function of os that takes the program as its argument ``at`` this place."""

    def failing(*args: Any, **kwargs: Any) -> Any:
        asking = _asking()
        if asking is None or len(args) <= at:
            return original(*args, **kwargs)
        _note(args[at], asking, True)
        raise _not_found(args[at])

    failing.__name__ = original.__name__
    return failing


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _asking() -> Any:
    """The frame of the line of the workspace that starts a program; None where a package does."""
    finder = placeholder_finder()
    frame: Any = sys._getframe(1)
    while frame is not None and not {frame.f_globals.get("__name__"), _package(frame)}.isdisjoint(_PASSING_ON):
        frame = frame.f_back
    if frame is None or finder is None or not finder.is_own(frame.f_code.co_filename):
        return None
    return frame


def _is_handled(frame: Any) -> bool:
    """Whether code of the file that is being executed, or of a constructor, goes on where the program is missing."""
    finder = placeholder_finder()
    while frame is not None and finder is not None:
        file = frame.f_code.co_filename
        if finder.is_own(file) and finder.is_guarded(file, frame.f_lineno, _CAUGHT):
            return True
        if frame.f_code.co_name == "<module>":
            return False
        frame = frame.f_back
    return False


def _note(command: Any, frame: Any, fails: bool) -> None:
    text = _text(command)
    got = "raises FileNotFoundError" if fails else "seems to have ended well, without output"
    outside.note(
        f"`{text}` was not started: FX Lens starts no programs while it looks at a file. The call {got}",
        frame.f_code.co_filename,
        frame.f_lineno,
        matters=False,
    )


def _text(command: Any) -> str:
    try:
        single = isinstance(command, (str, bytes, os.PathLike))
        text = os.fsdecode(command) if single else shlex.join(map(os.fsdecode, command))
    except Exception:  # no list of texts
        text = "a program"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _not_found(command: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), _text(command).partition(" ")[0])
