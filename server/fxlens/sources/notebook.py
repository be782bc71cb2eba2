"""A notebook's code cells as one Python text, and back from its lines to the cells.

Each line of a cell stays one line of the same columns.  Where Python does not take a cell as it stands, its magics
become comments, and all of it where it does not parse even so.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fxlens.record import Finding

from . import positions
from .files import ERRORS
from .parsing import syntax_finding

_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics of a cell after which Python comes."""
_MAGIC = re.compile(r"^(\s*)([%!?].*)$")
_ASSIGNED = re.compile(r"^([^=%!#]+= *)([%!].*)$")
_HELP = re.compile(r"^\s*[\w.]+\?{1,2}\s*$")
_PIECE = re.compile(r"""\\.?|#.*|'{3}|"{3}|'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|[()\[\]{}]""")
"""Of a line what says whether the next one begins a statement."""
_ENDS = {quotes: re.compile(rf"\\.?|{quotes}") for quotes in ('"""', "'''")}

_END = "pass"
"""Stands between two cells: what is at the end of one does not reach into the next."""


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def module_path(path: str) -> str:
    """The path under which the index is told a file's text: a notebook's cells are as a module beside it."""
    return f"{path}.py" if is_notebook(path) else path


@dataclass(frozen=True)
class Notebook:
    """``written`` has the lines of ``text`` as they stand in the cells.  ``starts`` are the lines (from 1) at which the
    code cells begin, ``cells`` their numbers among all cells, from 1."""

    text: str
    written: str
    starts: tuple[int, ...]
    cells: tuple[int, ...]
    broken: tuple[tuple[int, str, BaseException], ...] = ()
    """Of the cells that do not parse: the line at which they begin, their text without magics, and why."""

    @classmethod
    def read(cls, source: str) -> Notebook:
        """From the file's JSON.  Raises ValueError where it is no notebook."""
        data = json.loads(source)
        if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
            raise ValueError("it has no cells")
        if _language(data) not in ("python", ""):
            return cls("", "", (), ())
        found = []
        for number, cell in enumerate(data["cells"], 1):
            if isinstance(cell, dict) and cell.get("cell_type") == "code":
                content = cell.get("source") or ""
                found.append((number, "".join(map(str, content)) if isinstance(content, list) else str(content)))
        return cls.joined(found)

    @classmethod
    def joined(cls, contents: Iterable[tuple[int, str]], typed: int | None = None) -> Notebook:
        """Of code cells, each with its number among all.  The one that is being ``typed`` stays where it does not
        parse, as half-typed text of a file does."""
        lines: list[str] = []
        written: list[str] = []
        starts, cells, broken = [], [], []
        for number, content in contents:
            shown = positions.lines_of(content)
            own = shown
            starts.append(len(lines) + 1)
            cells.append(number)
            if _problem("\n".join(shown)) and (error := _problem("\n".join(own := _without_magics(shown)))):
                broken.append((len(lines) + 1, "\n".join(own), error))
                own = own if number == typed else [f"# {line}" for line in own]
            lines += [*own, _END]
            written += [*shown, ""]
        return cls("\n".join(lines), "\n".join(written), tuple(starts), tuple(cells), tuple(broken))

    def problems(self, path: str) -> list[Finding]:
        """The findings of the cells that do not parse."""
        found: list[Finding] = []
        for start, text, error in self.broken:
            problem = syntax_finding(error, text, path)
            if (span := problem["span"]) is not None:
                span = {**span, "line": span["line"] + start - 1, "end_line": span["end_line"] + start - 1}
            found.append({**problem, "span": span})
        return found

    def place(self, line: int) -> tuple[int, int]:
        """The cell's number and the line in it, both from 1, of a line of the text."""
        at = max(bisect_right(self.starts, line) - 1, 0)
        return (self.cells[at], line - self.starts[at] + 1) if self.starts else (1, line)


def _language(data: dict[str, Any]) -> str:
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        if isinstance(found := metadata.get(name), dict) and found.get(key):
            return str(found[key]).lower()
    return ""


@functools.lru_cache(maxsize=4096)  # all cells are looked at for each key that is typed in one
def _problem(text: str) -> BaseException | None:
    """Why Python cannot parse it."""
    try:
        ast.parse(text)
    except ERRORS as error:
        return error.with_traceback(None)
    return None


def _without_magics(lines: list[str]) -> list[str]:
    first = lines[0].strip()
    if first.startswith("%%") and not first.startswith(_PYTHON_CELLS):
        return [f"# {line}" for line in lines]
    made: list[str] = []
    inside = ""  # the brackets and the quotes that are open, and the backslash at the end of the line before
    of_magic = False  # whether that line is a magic's
    for line in lines:
        if of_magic:
            made.append(f"# {line}")
        elif inside:
            made.append(line)
        else:
            made.append(_without_magic(line))
            of_magic = made[-1] != line
        if of_magic:
            of_magic = line.endswith("\\")
        else:
            inside = _open_after(line, inside.removesuffix("\\"))
    return made


def _open_after(line: str, inside: str) -> str:
    """What is open at the end of a line, with a backslash where the next line continues it."""
    at = 0
    while found := (_ENDS.get(inside[-3:]) or _PIECE).search(line, at):
        piece, at = found[0], found.end()
        if piece == "\\":
            return inside + piece
        if inside[-3:] in _ENDS:
            inside = inside.removesuffix(piece)
        elif piece[0] in "([{" or piece in _ENDS:
            inside += piece
        elif piece[0] in ")]}":
            inside = inside[:-1]
    return inside


def _without_magic(line: str) -> str:
    if found := _MAGIC.match(line):
        # In a block something has to stand there.
        return f"{found[1]}{'pass  ' if found[1] else ''}# {found[2]}"
    if found := _ASSIGNED.match(line):
        return f"{found[1]}None  # {found[2]}"
    return f"# {line}" if _HELP.match(line) else line
