"""Progress of a command: on a terminal a line rewritten in place, otherwise an occasional line."""

from __future__ import annotations

import sys
import time

from fxlens.sources.paths import relative
from fxlens.views.terminal import exact, one_line

_EVERY = 10.0  # seconds between two lines without a terminal


def show_progress(text: str, fraction: float) -> None:
    """One line on a terminal's standard error, rewritten in place."""
    if not sys.stderr.isatty():
        return
    bar = "█" * round(fraction * 24)
    end = "\r\033[K" if fraction >= 1 else ""
    line = f"\r\033[K{bar:░<24} {fraction:4.0%} {one_line(text)}"
    print(line, end=end, file=exact(sys.stderr), flush=True)


class Count:
    """Counts a command's finished files."""

    def __init__(self, total: int) -> None:
        self._total, self._count = total, 0
        self._said = time.monotonic()

    def done(self, path: str) -> None:
        """Count one more."""
        self._count += 1
        if sys.stderr.isatty():
            show_progress(f"{self._count} of {self._total} files: {relative(path)}", self._count / self._total)
        elif time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            print(f"fxlens: {self._count} of {self._total} files checked", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Removes the line, so that something else can be written."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=exact(sys.stderr), flush=True)
