"""Standard output and error without control characters: what a file or an exception says must not drive a terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["exact", "one_line", "plain_streams", "printable"]


def printable(text: str) -> str:
    """The text without control characters: each becomes its escape, ``\\x1b``."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def one_line(text: str) -> str:
    """The same for a file name, which may contain line ends."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


class _Plain:
    """A text stream that writes what is printable."""

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


@contextmanager
def plain_streams() -> Iterator[None]:
    """Until the end of the block, ``sys.stdout`` and ``sys.stderr`` write no control characters, and escapes of what
    their encoding does not have."""
    before = sys.stdout, sys.stderr
    for name, stream in zip(("stdout", "stderr"), before, strict=True):
        if stream is None:  # closed by whoever started this program
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Plain(before[0]), _Plain(before[1])  # type: ignore[assignment]
    try:
        yield
        sys.stdout.flush()  # here, where somebody says why that fails
    finally:
        sys.stdout, sys.stderr = before


def exact(stream: Any) -> Any:
    """The stream as it was, for what is printable already except for its own colours, and for patches that no terminal
    shows: a source may contain form feeds."""
    return stream.stream if isinstance(stream, _Plain) else stream
