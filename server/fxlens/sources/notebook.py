"""A notebook's code cells as one Python text, and back from its lines to the cells.

Each line of a cell stays one line of the same columns.  Magics become comments, and so does a cell that does not parse.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from . import positions
from .parsing import ERRORS

_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics of a cell after which Python comes."""
_MAGIC = re.compile(r"^(\s*)([%!?].*)$")
_ASSIGNED = re.compile(r"^(\s*[\w, ]+= *)([%!].*)$")
_HELP = re.compile(r"^\s*[\w.]+\?{1,2}\s*$")


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


@dataclass(frozen=True)
class Notebook:
    """``written`` has the lines of ``text`` as they stand in the cells.  ``starts`` are the lines (from 1) at which the
    code cells begin, ``cells`` their numbers among all cells, from 1.  ``problems`` are lines of cells that do not
    parse, and why."""

    text: str
    written: str
    starts: tuple[int, ...]
    cells: tuple[int, ...]
    problems: tuple[tuple[int, str], ...] = ()

    @classmethod
    def read(cls, source: str) -> Notebook:
        """From the file's JSON.  Raises ValueError where it is no notebook."""
        data = json.loads(source)
        if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
            raise ValueError("it has no cells")
        if _language(data) not in ("python", ""):
            return cls("", "", (), ())
        lines: list[str] = []
        written: list[str] = []
        starts, cells, problems = [], [], []
        for number, cell in enumerate(data["cells"], 1):
            if not isinstance(cell, dict) or cell.get("cell_type") != "code":
                continue
            content = cell.get("source") or ""
            shown = positions.lines_of("".join(content) if isinstance(content, list) else str(content))
            own = _without_magics(shown)
            starts.append(len(lines) + 1)
            cells.append(number)
            try:
                ast.parse("\n".join(own))
            except ERRORS as error:
                problems.append((len(lines) + (getattr(error, "lineno", None) or 1), getattr(error, "msg", str(error))))
                own = [f"# {line}" for line in own]
            lines += [*own, ""]
            written += [*shown, ""]
        return cls("\n".join(lines), "\n".join(written), tuple(starts), tuple(cells), tuple(problems))

    def place(self, line: int) -> tuple[int, int]:
        """The cell's number and the line in it, both from 1, of a line of the text."""
        at = max(bisect_right(self.starts, line) - 1, 0)
        return (self.cells[at], line - self.starts[at] + 1) if self.starts else (1, line)


def _language(data: dict[str, Any]) -> str:
    metadata = data.get("metadata") or {}
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        if isinstance(found := metadata.get(name), dict) and found.get(key):
            return str(found[key]).lower()
    return ""


def _without_magics(lines: list[str]) -> list[str]:
    first = lines[0].strip()
    if first.startswith("%%") and not first.startswith(_PYTHON_CELLS):
        return [f"# {line}" for line in lines]
    return [_without_magic(line) for line in lines]


def _without_magic(line: str) -> str:
    if found := _MAGIC.match(line):
        # In a block something has to stand there.
        return f"{found[1]}{'pass  ' if found[1] else ''}# {found[2]}"
    if found := _ASSIGNED.match(line):
        return f"{found[1]}None  # {found[2]}"
    return f"# {line}" if _HELP.match(line) else line
