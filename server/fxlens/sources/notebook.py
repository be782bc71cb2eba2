"""A notebook's code cells as one Python text, and the mapping from its lines to the cells.

Each line of a cell stays one line with the same columns. If a cell is not valid Python, its magics become comments, and
if it still does not parse, all of it.
"""

from __future__ import annotations

import ast
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from fxlens.record import Finding, Record, Target

from . import positions
from .files import ERRORS, LONG
from .parsing import syntax_finding

_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Cell magics that are followed by Python."""
_MAGIC = re.compile(r"^(\s*)([%!?].*)$")
_ASSIGNED = re.compile(r"^([^=%!#]+= *)([%!].*)$")
_HELP = re.compile(r"^\s*[\w.]+\?{1,2}\s*$")
_PIECE = re.compile(r"""\\.?|#.*|'{3}|"{3}|'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|[()\[\]{}]""")
"""Tokens that decide whether the next line begins a statement."""
_ENDS = {quotes: re.compile(rf"\\.?|{quotes}") for quotes in ('"""', "'''")}

_END = "pass"
"""Separates two cells, so that the end of one does not reach into the next."""
_BLOCK = "if True:"
"""Separator before a cell that is indented as a whole, which IPython accepts, to keep its columns."""


_AFTER_EDIT = re.compile(r", at new lines? \d+(?: and \d+)*")


class _Lines(NamedTuple):
    """A cell's lines as written, and as Python: if that does not parse, ``error`` says why. Unknown unless
    ``parsed``."""

    written: list[str]
    python: list[str]
    error: BaseException | None
    parsed: bool
    indented: bool = False


def is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def module_path(path: str) -> str:
    """The path under which a file's text is indexed: that of the cells of ``study.ipynb`` as ``study.ipynb.py``."""
    return f"{path}.py" if is_notebook(path) else path


def place_of(file: str, line: int, own: str) -> tuple[str, int | None]:
    """A place from the index, for the file that it knows as ``own``; lines of other notebooks are omitted."""
    notebook = file.removesuffix(".py")
    if not is_notebook(notebook):
        return file, line
    return notebook, line if file == own else None


def python_of(path: str, source: str) -> tuple[str, Notebook | None]:
    """The Python text of a file, and its cells if it is a notebook. Raises ValueError as `Notebook.read`."""
    notebook = Notebook.read(source, os.path.basename(path)) if is_notebook(path) else None
    return (notebook.text if notebook else source, notebook)


def line_of(notebook: Notebook | None, line: int) -> dict[str, int]:
    """A line of a file's text (from 1) as ``line``, from 0; in a notebook that of its ``cell``, from 1."""
    if notebook is None:
        return {"line": line - 1}
    cell, line = notebook.place(line)
    return {"cell": cell, "line": line - 1}


@dataclass(frozen=True)
class Notebook:
    """``written`` has the lines of ``text`` as in the cells.  ``starts`` are the lines (from 1) at which the code cells
    begin, ``cells`` their numbers among all cells, from 1."""

    text: str
    written: str
    starts: tuple[int, ...]
    cells: tuple[int, ...]
    broken: tuple[tuple[int, str, BaseException], ...] = ()
    """For cells that do not parse: their first line, their text without magics, and the error."""
    name: str = ""
    """Sentences about its file."""
    ends: tuple[str, ...] = ()
    """The line end of each code cell."""
    known: Mapping[str, _Lines] = field(default_factory=dict, compare=False, repr=False)
    """Its cells as they were read."""

    @classmethod
    def read(cls, source: str, name: str = "") -> Notebook:
        """From the file's JSON.  Raises ValueError if it is not a notebook."""
        if not source.strip():
            return cls("", "", (), (), name=name)  # as editors open a new one
        try:
            data = json.loads(source)
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        if not isinstance(data, dict) or not isinstance(cells := _cells(data), list):
            raise ValueError("it has no cells")
        if _language(data) not in ("python", ""):
            return cls("", "", (), (), name=name)
        found = []
        for number, cell in enumerate(cells, 1):
            if isinstance(cell, dict) and cell.get("cell_type") == "code" and _cell_language(cell) in ("python", ""):
                content = cell.get("source") or cell.get("input") or ""
                found.append((number, "".join(map(str, content)) if isinstance(content, list) else str(content)))
        return cls.joined(found, name=name)

    @classmethod
    def joined(
        cls,
        contents: Iterable[tuple[int, str]],
        typed: int | None = None,
        name: str = "",
        before: Mapping[str, _Lines] | None = None,
    ) -> Notebook:
        """From code cells, each with its number among all. The one being ``typed`` is kept even if it does not parse,
        like half-typed text in a file.

        With the ``known`` cells of ``before`` (or an empty mapping), it is fast enough for the event loop: only changed
        cells are parsed, and none of a `LONG` notebook."""
        contents = list(contents)
        parsed = before is None or sum(len(content) for _, content in contents) <= LONG
        known: dict[str, _Lines] = {}
        lines: list[str] = []
        written: list[str] = []
        starts, cells, broken = [], [], []
        for number, content in contents:
            if content not in known:
                read = (before or {}).get(content)
                known[content] = read if read and (read.parsed or not parsed) else _read(content, parsed)
            shown, own, error, _, indented = known[content]
            if indented:
                lines[-1:], written = [_BLOCK], written or [""]
            starts.append(len(lines) + 1)
            cells.append(number)
            if error:
                broken.append((len(lines) + 1, "\n".join(own), error))
                own = own if number == typed else [f"# {line}" for line in own]
            lines += [*own, _END]
            written += [*shown, ""]
        ends = tuple(positions.line_end(content) for _, content in contents)
        return cls("\n".join(lines), "\n".join(written), tuple(starts), tuple(cells), tuple(broken), name, ends, known)

    def programs(self) -> list[tuple[int, str]]:
        """The number of each cell, and its text as a program, dedented if it is indented as a whole."""
        lines, found = self.text.split("\n"), []
        for number, start, after in zip(self.cells, self.starts, [*self.starts[1:], self._last + 1], strict=True):
            own = lines[start - 1 : after - 2]
            if start > 1 and lines[start - 2] == _BLOCK:
                first = next(line for line in own if line[:1].isspace() and line.strip())
                indent = first[: len(first) - len(first.lstrip())]
                own = [line.removeprefix(indent) for line in own]
            found.append((number, "\n".join([*own, ""])))
        return found

    def problems(self, path: str) -> list[Finding]:
        """The findings of the cells that do not parse."""
        found: list[Finding] = []
        for start, text, error in self.broken:
            problem = syntax_finding(error, text, path)
            if (span := problem["span"]) is not None:
                span = {**span, "line": span["line"] + start - 1, "end_line": span["end_line"] + start - 1}
            found.append({**problem, "span": span})
        return found

    def holding(self, line: int) -> int | None:
        """The index in ``cells`` of the one that contains a line of the text or ends at it; None if there is none."""
        found = bisect_right(self.starts, line) - 1
        return found if found >= 0 and line <= self._last else None

    def place(self, line: int) -> tuple[int, int]:
        """The cell's number and the line in it, both from 1, of a line of the text."""
        at = max(bisect_right(self.starts, line) - 1, 0)
        return (self.cells[at], line - self.starts[at] + 1) if self.starts else (1, line)

    def line(self, cell: int, line: int) -> int | None:
        """The line of the text for a line of a cell, all from 1; None if there is none."""
        at = self.cells.index(cell) if cell in self.cells else None
        found = None if at is None else self.starts[at] + line - 1
        return found if found is not None and found >= 1 and self.holding(found) == at else None

    def said(self, text: str, line: int | None = None) -> str:
        """A sentence about a line of the text, with lines of cells: those of its own cell without the cell. Lines that
        exist only after an edit are left out."""
        own = None if line is None else self.place(line)[0]

        def named(match: re.Match[str]) -> str:
            number = int(match["at"] or match["line"])
            if self.holding(number) is None:
                return match[0]
            cell, found = self.place(number)
            if match["at"]:
                return f"{match['file']}{':' if match['mark'] == ':' else ', '}cell {cell}{match['mark']}{found}"
            return f"line {found}" if cell == own else f"line {found} of cell {cell}"

        return self._lines.sub(named, _AFTER_EDIT.sub("", text))

    def placed(self, value: Any) -> Any:
        """The plain data of a report in terms of cells: a span in the notebook, and a row with a ``line`` beside its
        span, get a ``cell``; a span that is a list names it with the file."""
        if isinstance(value, str):
            return self.said(value)
        if isinstance(value, Mapping):
            made = {name: self.placed(each) for name, each in value.items()}
            line = value.get("line")
            if isinstance(line, int) and (value.get("span") or self._is_own(value.get("file"))):
                made["cell"], made["line"] = self.place(line)
                if "end_line" in value:
                    made["end_line"] = value["end_line"] - line + made["line"]
            return made
        if not isinstance(value, list | tuple):
            return value
        if len(value) != 5 or not self._is_own(value[0]):
            return list(map(self.placed, value))
        cell, line = self.place(value[1])
        return [f"{value[0]}:cell {cell}", line, value[2], line + value[3] - value[1], value[4]]

    def _is_own(self, file: Any) -> bool:
        return isinstance(file, str) and os.path.basename(file) == self.name

    @cached_property
    def _last(self) -> int:
        return self.text.count("\n") + 1

    @cached_property
    def _lines(self) -> re.Pattern[str]:
        """A line of the text in a sentence; those of other files are named with the file."""
        name = re.escape(self.name) or "(?!)"
        at = rf'(?P<file>{name}"?)(?P<mark>:|, line )(?P<at>\d+)\b'
        return re.compile(rf"{at}|(?<!, )(?<!new )\bline (?P<line>\d+)\b(?: of {name}|(?! of ))")

    def of_cells(self, record: Record) -> Record:
        """The record with lines of cells in its sentences.  Its places stay those of the text."""

        def told(finding: Finding) -> Finding:
            if finding["code"] == "FX308":  # Python's message has lines of the cell
                return finding
            span = finding["span"]
            at = span["line"] if span is not None and span["file"] == record["path"] else None
            return {
                **finding,
                "message": self.said(finding["message"], at),
                "related": [{**each, "message": self.said(each["message"], at)} for each in finding["related"]],
                "fixes": [
                    {**fix, "title": self.said(fix["title"], at), "note": fix["note"] and self.said(fix["note"], at)}
                    for fix in finding["fixes"]
                ],
            }

        def of_target(target: Target) -> Target:
            at = target["line"]
            return {
                **target,
                "reason": target["reason"] and self.said(target["reason"], at),
                "why": self.said(target["why"], at),
                "findings": list(map(told, target["findings"])),
                "lowering": list(map(told, target["lowering"])),
                "captured": list(map(told, target["captured"])),
                "captures": [{**each, "reason": self.said(each["reason"], at)} for each in target["captures"]],
            }

        return {
            **record,
            "targets": list(map(of_target, record["targets"])),
            "findings": list(map(told, record["findings"])),
            "notes": [self.said(each) for each in record["notes"]],
        }


def _cells(data: dict[str, Any]) -> Any:
    """Before version 4 of the format, they are in worksheets."""
    sheets = data.get("worksheets")
    if "cells" in data or not isinstance(sheets, list):
        return data.get("cells")
    return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]


def _language(data: dict[str, Any]) -> str:
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        if isinstance(found := metadata.get(name), dict) and found.get(key):
            return str(found[key]).lower()
    return ""


def _cell_language(cell: dict[str, Any]) -> str:
    """The language chosen for this cell in VS Code: shellscript, plaintext."""
    metadata = cell.get("metadata")
    chosen = metadata.get("vscode") if isinstance(metadata, dict) else None
    return str(chosen.get("languageId") or "") if isinstance(chosen, dict) else ""


def _read(content: str, parsed: bool) -> _Lines:
    shown = positions.lines_of(content)
    if parsed and _problem(shown) is None:
        return _Lines(shown, shown, None, parsed)
    own = _without_magics(shown)
    error = _problem(own) if parsed else None
    first = next((line for line in own[shown[0].startswith("%%") :] if line.strip()), "")
    if first[:1].isspace() and _problem([_BLOCK, *own]) is None:
        return _Lines(shown, own, None, parsed, indented=True)
    return _Lines(shown, own, error, parsed)


def _problem(lines: list[str]) -> BaseException | None:
    """The error of Python for them."""
    try:
        ast.parse("\n".join(lines))
    except ERRORS as error:
        return error.with_traceback(None)
    return None


def _without_magics(lines: list[str]) -> list[str]:
    first = lines[0].strip()
    if first.startswith("%%") and not first.startswith(_PYTHON_CELLS):
        return [f"# {line}" for line in lines]
    made: list[str] = []
    inside = ""  # the brackets and the quotes that are open, and the backslash at the end of the line before
    of_magic = False  # whether that line belongs to a magic
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
    """The open brackets and quotes at the end of a line, with a backslash if the next line continues it."""
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
        # A block must not be empty.
        return f"{found[1]}{'pass  ' if found[1] else ''}# {found[2]}"
    if found := _ASSIGNED.match(line):
        return f"{found[1]}None  # {found[2]}"
    return f"# {line}" if _HELP.match(line) else line
