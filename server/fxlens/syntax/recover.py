"""A tree for half-typed text: lines that do not parse are replaced by `pass` until the rest does."""

from __future__ import annotations

import ast
import re

__all__ = ["parse_tolerantly"]

_ATTEMPTS = 8


def parse_tolerantly(text: str) -> tuple[ast.Module | None, set[int]]:
    """The tree and the numbers of the lines that were left out; ``(None, ...)`` if too much does not parse."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    dropped: set[int] = set()
    for _ in range(_ATTEMPTS):
        try:
            return ast.parse("".join(lines)), dropped
        except SyntaxError as error:
            line = _culprit(error, lines, dropped)
            if line is None:
                return None, dropped
            bare = lines[line - 1].rstrip("\r\n")
            ending = lines[line - 1][len(bare) :]
            indent = bare[: len(bare) - len(bare.lstrip())]
            keeps_block = bare.rstrip().endswith(":") and line not in dropped
            lines[line - 1] = f"{indent}{'if 1:' if keeps_block else 'pass'}{ending}"
            dropped.add(line)
        except (ValueError, RecursionError, MemoryError):
            return None, dropped
    return None, dropped


def _culprit(error: SyntaxError, lines: list[str], dropped: set[int]) -> int | None:
    """The line to leave out: the one named by the error, or the nearest non-empty line above."""
    line = min(error.lineno or len(lines), len(lines))
    if isinstance(error, IndentationError) and "expected an indented block" in (error.msg or ""):
        # A header without a block: leave out the header.
        found = re.search(r"on line (\d+)", error.msg)
        if found and (line := int(found[1])) in dropped:
            return line  # the `if 1:` that replaces it has no block either
    while line >= 1 and (line in dropped or not lines[line - 1].strip()):
        line -= 1
    return line if line >= 1 else None
