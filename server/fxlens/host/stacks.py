"""The stacks that a process leaves when it hangs or dies, as written by faulthandler: its position in the file."""

from __future__ import annotations

import re

from fxlens.sources.paths import key

from .outcome import SLOW

_FRAME = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+)(?: in (?P<name>.*))?$', re.MULTILINE)
_OF_TRACKER = re.compile(r"resource_tracker: There appear|^\s*warnings\.warn\('resource_tracker")


def line_in(dump: str, path: str, stopped: bool = True) -> int | None:
    """The innermost line of ``path`` in the last stack that faulthandler wrote into ``dump``.

    Unless it was ``stopped`` for exceeding a limit, a process ended elsewhere than at the stack of a slow step."""
    stack = last_stack(dump)
    if not stopped and stack.startswith(SLOW):
        return None
    wanted = key(path)
    for match in _FRAME.finditer(stack):
        if key(match["file"]) == wanted:
            return int(match["line"])
    return None


def last_stack(dump: str) -> str:
    """The part of the output from the last message of faulthandler, or of our ``os._exit``, on."""
    starts = [dump.rfind(mark) for mark in ("\nFatal Python error:", SLOW, "\nfxlens: os._exit(")]
    start = max(starts)
    return dump[start:] if start >= 0 else ("" if not dump.startswith("Fatal Python error:") else dump)


def last_output(dump: str, lines: int = 3) -> str:
    """The last lines that the process printed before the stack in ``dump``. Messages of its shared-memory tracker about
    a kill are left out."""
    stack = last_stack(dump)
    printed = dump[: len(dump) - len(stack)] if stack else dump
    kept = [line.rstrip() for line in printed.splitlines() if line.strip() and not _OF_TRACKER.search(line)]
    return "\n".join(line if len(line) <= 300 else line[:300] + "…" for line in kept[-lines:])
