"""A notebook's cell of Python: maps between its lines and those of the notebook's text, in LSP positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import positions
from .notebook import Notebook

Json = dict[str, Any]


class Nowhere(Exception):
    """A place is not in the cell, or in any."""


@dataclass(frozen=True)
class Cell:
    """``uri`` is its address in an editor."""

    uri: str
    number: int
    """Its number among all cells of the notebook, from 1, as editors show it."""
    first: int
    """Its first line (from 0) in the notebook's text."""
    written: list[str]
    text: list[str]
    """Its lines in the notebook's text."""
    line_end: str = "\n"

    @property
    def after(self) -> int:
        """The line after it in the notebook's text, which is in no cell."""
        return self.first + len(self.written)

    def range(self, value: Json, encoding: str) -> Json:
        """Raises Nowhere if it begins in another cell."""
        start = self.position(value["start"], encoding)
        try:
            return {"start": start, "end": self.position(value["end"], encoding)}
        except Nowhere:  # an unclosed bracket or string marks everything after it
            return {"start": start, "end": self._end(len(self.written) - 1, encoding)}

    def position(self, value: Json, encoding: str) -> Json:
        """Raises Nowhere if it is in another cell."""
        if not self.first <= value["line"] <= self.after:
            raise Nowhere
        if value["line"] == self.after:
            return self._end(len(self.written) - 1, encoding)
        return {**value, "line": value["line"] - self.first}

    def edit(self, edit: Json, encoding: str) -> Json:
        """The edit in the cell, whose last line has no line end of its own. Raises Nowhere if the edit spans several
        cells, or a line that is not Python."""
        start, end, text = edit["range"]["start"], edit["range"]["end"], edit["newText"]
        if not self.first <= end["line"] <= self.after or (end["line"] == self.after and end["character"]):
            raise Nowhere
        if start == end and start["line"] == self.first and self.written[0].startswith("%%") and not start["character"]:
            start = end = {"line": start["line"] + 1, "character": 0}  # that line has to stay the first
        first, last = start["line"] - self.first, end["line"] - self.first
        touched = slice(first, last if last > first and not end["character"] else last + 1)
        if start != end and self.written[touched] != self.text[touched]:
            raise Nowhere
        if self._is_commented():
            raise Nowhere
        if last == len(self.written):
            if first == last:
                text = "\n" + text.rstrip("\n")
            elif text or not first or start["character"]:
                text = text.removesuffix("\n")
            else:
                start = {"line": self.first + first - 1, "character": self._end(first - 1, encoding)["character"]}
        place = {"start": self.position(start, encoding), "end": self.position(end, encoding)}
        # The notebook's text has line feeds, whatever the cell has.
        return {**edit, "range": place, "newText": text.replace("\n", self.line_end)}

    def _end(self, line: int, encoding: str) -> Json:
        return {"line": line, "character": positions.character(self.written[line], 1 << 30, encoding)}

    def _is_commented(self) -> bool:
        """Whether all of it is commented out: another language, or text that does not parse."""
        return all(text == f"# {written}" for text, written in zip(self.text, self.written, strict=True))


def cells_of(made: Notebook, uris: list[str] | None = None) -> list[Cell]:
    text, written = positions.lines_of(made.text), positions.lines_of(made.written)
    starts = [line - 1 for line in made.starts]
    ends = [*(start - 1 for start in starts[1:]), len(text) - 1]
    return [
        Cell(uri, number, start, written[start:end], text[start:end], line_end)
        for uri, number, start, end, line_end in zip(
            uris or [""] * len(starts), made.cells, starts, ends, made.ends, strict=True
        )
    ]
