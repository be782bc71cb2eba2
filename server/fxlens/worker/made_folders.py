"""Removes folders that a script creates at its start, so that checking a repository leaves nothing in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from fxlens.sources.paths import is_within


@contextlib.contextmanager
def taken_away(folder: str) -> Iterator[None]:
    """Remove folders that were created in ``folder`` meanwhile and are empty at the end."""
    made: list[str] = []
    mkdir = os.mkdir

    def noted(path: Any, *args: Any, **kwargs: Any) -> None:
        mkdir(path, *args, **kwargs)
        if kwargs.get("dir_fd") is None:
            made.append(os.path.abspath(os.fsdecode(path)))

    os.mkdir = noted
    try:
        yield
    finally:
        os.mkdir = mkdir
        for path in reversed(made):
            if is_within(path, [folder]):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
