"""The stacks that a process leaves when it hangs or dies, as faulthandler writes them: where in the file it was."""

from __future__ import annotations

import re

from fxlens.sources.paths import key

from .outcome import SLOW

_FRAME = re.compile(r'^\s*File "(?P<file>.+?)", line (?P<line>\d+)(?: in (?P<name>.*))?$', re.MULTILINE)
_OF_TRACKER = re.compile(r"resource_tracker: There appear|^\s*warnings\.warn\('resource_tracker")


def line_in(dump: str, path: str, stopped: bool = True) -> int | None:
    """The innermost line of ``path`` in the last stack that faulthandler wrote into ``dump``.

    A process that was not ``stopped`` for taking too much ended elsewhere than where it was slow on the way."""
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
    """The last lines that the process printed before the stack in ``dump``. What the tracker of its shared memory says
    of a process that was killed is not among them."""
    stack = last_stack(dump)
    printed = dump[: len(dump) - len(stack)] if stack else dump
    kept = [line.rstrip() for line in printed.splitlines() if line.strip() and not _OF_TRACKER.search(line)]
    return "\n".join(line if len(line) <= 300 else line[:300] + "…" for line in kept[-lines:])
