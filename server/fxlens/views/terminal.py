"""Standard output and error without control characters: texts from files and exceptions must not control the
terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Unwritten", "console", "exact", "one_line", "or_unwritten", "plain_streams", "printable"]


def printable(text: str) -> str:
    """The text without control characters: each becomes its escape, ``\\x1b``."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def one_line(text: str) -> str:
    """The same for a file name, which may contain line ends."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class _Plain:
    """A text stream that escapes unprintable characters."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Unwritten(OSError):
    """Standard output cannot be written."""


class _Results:
    """Standard output as it is, except that an error in writing it is `Unwritten`: no other file has that."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with or_unwritten():
            return self.stream.write(text)

    def flush(self) -> None:
        with or_unwritten():
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def or_unwritten() -> Iterator[None]:
    """Raises Unwritten for an error of standard output, except that who reads it has enough."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritten(error.errno, error.strerror or str(error)) from error


class _Beside(_Plain):
    """The same for messages besides the results: if one cannot be written, only that message is lost."""

    def write(self, text: str) -> int:
        with self._or_nowhere():
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._or_nowhere():
            self.stream.flush()

    @contextmanager
    def _or_nowhere(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            to_nowhere(self.stream)


def to_nowhere(stream: TextIO) -> None:
    """Discards what the stream holds, too, which Python would write at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def plain_streams() -> Iterator[None]:
    """Until the end of the block, ``sys.stdout`` and ``sys.stderr`` write no control characters, and escape characters
    that their encoding lacks. Text that cannot be written to the latter is lost, and to the former raises Unwritten."""
    before = sys.stdout, sys.stderr
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if stream is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Plain(_Results(before[0])), _Beside(before[1])  # type: ignore[assignment, arg-type]
    try:
        yield
        sys.stdout.flush()  # here, where a failure is reported
    finally:
        sys.stdout, sys.stderr = before


def console(out: TextIO, color: bool) -> Console:
    """Writes styled text unchanged."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise

    return Piped(
        file=out, force_terminal=color, no_color=not color, highlight=False, markup=False, emoji=False, soft_wrap=True,
        width=shutil.get_terminal_size().columns,  # rich writes nothing at a width of 0, which means unknown
    )  # fmt: skip


def exact(stream: Any) -> Any:
    """The original stream, for text that is already printable except for its own colours, and for patches written to
    files, since a source may contain form feeds."""
    return stream.stream if isinstance(stream, _Plain) else stream
