"""Between the cells of open notebooks and the documents that they are joined into, on the wire: the only place that
knows both.  What a client says of a cell is said of its notebook before any feature reads it, and what features say of
a notebook is said of its cells before it is sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from fxlens.sources import positions
from fxlens.sources.notebook import Notebook

Json = dict[str, Any]
_SYNCHRONISED = ("notebookDocument/", "textDocument/did")
"""Methods that are about the cells themselves."""
_TEXTS = ("message", "title", "label", "tooltip", "value")
_LINE = re.compile(r"(?<!, )(?<!new )\bline (\d+)\b(?! of )")
"""A line of the document in a sentence; those of other files are named with the file."""
_AFTER_EDIT = re.compile(r", at new lines? \d+(?: and \d+)*")
_CHANGED = {"code": types.LSPErrorCodes.ContentModified.value, "message": "The cells have changed meanwhile."}
_TOO_WIDE = "FX Lens changed nothing: the edit would reach over several cells, or into a line that is no Python."


class _Nowhere(Exception):
    """What is to be sent has no place in the cell that was asked about, or in any."""


@dataclass(frozen=True)
class Cell:
    """A cell of Python, with its lines and how its notebook's text has them."""

    uri: str
    number: int
    """Among all cells of the notebook, from 1, as editors show it."""
    first: int
    """Its first line (from 0) in the notebook's text."""
    written: list[str]
    text: list[str]

    @property
    def after(self) -> int:
        """The line that ends it in the notebook's text, and is in no cell."""
        return self.first + len(self.written)


class Joined:
    """A notebook: its document's address and text, and the cells of that text."""

    def __init__(self, uri: str, made: Notebook, cells: list[str]) -> None:
        self.uri = uri
        self.made = made
        text, written = positions.lines_of(made.text), positions.lines_of(made.written)
        starts = [line - 1 for line in made.starts]
        ends = [*(start - 1 for start in starts[1:]), len(text) - 1]
        self.cells = [
            Cell(cell, number, start, written[start:end], text[start:end])
            for cell, number, start, end in zip(cells, made.cells, starts, ends, strict=True)
        ]
        self._firsts = starts

    @property
    def code(self) -> tuple[str, list[str]]:
        """All of it that counts."""
        return self.made.text, [cell.uri for cell in self.cells]

    @property
    def layout(self) -> list[tuple[str, int, int]]:
        """Which lines are whose."""
        return [(cell.uri, cell.first, cell.after) for cell in self.cells]

    def cell(self, uri: str) -> Cell:
        return next(each for each in self.cells if each.uri == uri)

    def at(self, line: int) -> Cell:
        """The cell that holds a line (from 0), or is ended by it."""
        found = self.holding(line)
        if found is None:
            raise _Nowhere
        return found

    def holding(self, line: int) -> Cell | None:
        """The same, where any does."""
        at = bisect_right(self._firsts, line) - 1
        return self.cells[at] if at >= 0 and line <= self.cells[at].after else None


class Cells:
    """``version(uri)`` is that of a cell's text now, ``encoding()`` how characters are counted."""

    def __init__(self, version: Callable[[str], int | None], encoding: Callable[[], str]) -> None:
        self._version, self._encoding = version, encoding
        self._notebooks: dict[str, Joined] = {}
        self._notebook_of: dict[str, str] = {}
        self._asked: dict[Any, tuple[str, Joined]] = {}
        """The cells that requests without an answer are about, and their notebooks as they were then."""
        self._sent: dict[str, Json] = {}
        """The last diagnostics of each cell."""

    @property
    def idle(self) -> bool:
        """Whether nothing is to be said of cells."""
        return not self._notebooks and not self._asked

    def put(self, notebook: Joined) -> list[str]:
        """Takes a notebook as it is now; the cells of which something was said, and that are gone."""
        gone = self._drop(notebook.uri)
        self._notebooks[notebook.uri] = notebook
        self._notebook_of.update({cell.uri: notebook.uri for cell in notebook.cells})
        gone = [each for each in gone if each not in self._notebook_of]
        return [each for each in gone if self._sent.pop(each, None) is not None]

    def close(self, uri: str) -> None:
        for cell in self._drop(uri):
            self._sent.pop(cell, None)

    def get(self, uri: str) -> Joined | None:
        return self._notebooks.get(uri)

    def _drop(self, uri: str) -> list[str]:
        before = self._notebooks.pop(uri, None)
        cells = [cell.uri for cell in before.cells] if before is not None else []
        for cell in cells:
            self._notebook_of.pop(cell, None)
        return cells

    def incoming(self, message: Json) -> Json:
        """A message of the client, about the notebook where it is about a cell."""
        params = message.get("params")
        if not self._notebook_of or not isinstance(params, dict) or not isinstance(message.get("id", 0), (int, str)):
            return message
        identifier = params.get("textDocument")
        uri = identifier.get("uri") if isinstance(identifier, dict) else params.get("uri")
        notebook = self._notebook_of.get(uri) if isinstance(uri, str) else None
        if not isinstance(uri, str) or notebook is None or str(message.get("method")).startswith(_SYNCHRONISED):
            return message
        joined = self._notebooks[notebook]

        def moved(value: Any, cell: Cell | None, name: str = "") -> Any:
            if isinstance(value, dict):
                if isinstance(other := value.get("uri"), str) and other != uri:
                    cell = joined.cell(other) if self._notebook_of.get(other) == notebook else None
                return {name: moved(each, cell, name) for name, each in value.items()}
            if isinstance(value, list):
                return [moved(each, cell) for each in value]
            if cell is None:
                return value
            if name == "uri":
                return notebook
            if name == "line" and isinstance(value, int):
                return min(max(value, 0), len(cell.written)) + cell.first
            return value

        if "id" in message:
            self._asked[message["id"]] = (uri, joined)
        return {**message, "params": moved(params, joined.cell(uri))}

    def outgoing(self, message: Any, plain: Callable[[Any], Json]) -> list[Any]:
        """What is sent in place of a message; ``plain`` makes JSON of one."""
        if self.idle:
            return [message]
        message = plain(message)
        params = message.get("params")
        if message.get("method") == types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS and params["uri"] in self._notebooks:
            return list(self._diagnostics(self._notebooks[params["uri"]], params))
        if "error" in message:
            self._asked.pop(message.get("id"), None)
            return [message]
        try:
            if "method" in message:
                return [{**message, "params": self._in_cells(params, None)}]
            cell = None
            if asked := self._asked.pop(message.get("id"), None):
                uri, before = asked
                now = self._notebooks.get(before.uri)
                if now is None or now.layout != before.layout:
                    return [{"jsonrpc": "2.0", "id": message["id"], "error": _CHANGED}]
                cell = now.cell(uri)
            return [{**message, "result": self._in_cells(message.get("result"), cell)}]
        except _Nowhere:
            if "method" not in message:
                return [{**message, "result": None}]
            shown = {"type": types.MessageType.Warning.value, "message": _TOO_WIDE}
            return [{"jsonrpc": "2.0", "method": types.WINDOW_SHOW_MESSAGE, "params": shown}]

    def _diagnostics(self, notebook: Joined, params: Json) -> Iterator[Json]:
        """One message for each cell of which something else is to be said than before."""
        found: dict[str, list[Json]] = {cell.uri: [] for cell in notebook.cells}
        for each in params["diagnostics"] if notebook.cells else ():
            cell = notebook.at(each["range"]["start"]["line"])
            found[cell.uri].append(self._in_cells(each, cell))
        for uri, diagnostics in found.items():
            message = _published(uri, diagnostics)
            if params.get("version") is not None:
                message["params"]["version"] = self._version(uri)
            if self._sent.get(uri) != message:
                self._sent[uri] = message
                yield message

    def _in_cells(self, value: Any, cell: Cell | None) -> Any:
        """The same about cells.  Ranges without an address are in ``cell``, where the request was about one; of a list
        those entries stay that are in it."""
        if isinstance(value, list):
            return list(self._each_in_cells(value, cell))
        if not isinstance(value, dict):
            return value
        if "changes" in value or "documentChanges" in value:
            return self._workspace_edit(value)
        notebook = self._notebooks.get(value["uri"]) if isinstance(value.get("uri"), str) else None
        if notebook is not None and "range" in value:
            there = notebook.at(value["range"]["start"]["line"])
            return {**value, "uri": there.uri, "range": self._range(value["range"], there)}
        if notebook is not None and "line" in value:
            there = notebook.at(value["line"])
            made = {**value, "uri": there.uri, "line": value["line"] - there.first}
            if value["line"] == there.after and isinstance(value.get("text"), str):
                made["text"] = value["text"].rstrip("\n")  # nothing comes after it
            return made
        if cell is None or "uri" in value:
            return {name: self._in_cells(each, cell) for name, each in value.items()}
        # Python names lines of the cell that it cannot parse.
        kept = {"message"} if value.get("code") == "FX308" else set()
        return {name: each if name in kept else self._member(name, each, cell) for name, each in value.items()}

    def _each_in_cells(self, values: list[Any], cell: Cell | None) -> Iterator[Any]:
        for each in values:
            try:
                yield self._in_cells(each, cell)
            except _Nowhere:
                continue

    def _member(self, name: str, value: Any, cell: Cell) -> Any:
        if name == "range" and isinstance(value, dict) and "start" in value:
            return self._range(value, cell)
        if name == "position" and isinstance(value, dict) and "line" in value:
            return self._position(value, cell)
        if name in _TEXTS and isinstance(value, str):
            return self._said(value, cell)
        return self._in_cells(value, cell)

    def _said(self, text: str, cell: Cell) -> str:
        """A sentence with lines of cells; without those that only an edit will make."""
        notebook = self._notebooks[self._notebook_of[cell.uri]]

        def named(match: re.Match[str]) -> str:
            there = notebook.holding(int(match[1]) - 1)
            if there is None:
                return match[0]
            line = f"line {int(match[1]) - there.first}"
            return line if there is cell else f"{line} of cell {there.number}"

        return _LINE.sub(named, _AFTER_EDIT.sub("", text))

    def _range(self, value: Json, cell: Cell) -> Json:
        start = self._position(value["start"], cell)
        try:
            return {"start": start, "end": self._position(value["end"], cell)}
        except _Nowhere:  # of a name that is never closed, all that follows is marked
            return {"start": start, "end": self._end(cell)}

    def _position(self, value: Json, cell: Cell) -> Json:
        if not cell.first <= value["line"] <= cell.after:
            raise _Nowhere
        if value["line"] == cell.after:
            return self._end(cell)
        return {**value, "line": value["line"] - cell.first}

    def _end(self, cell: Cell) -> Json:
        last = len(cell.written) - 1
        return {"line": last, "character": positions.character(cell.written[last], 1 << 30, self._encoding())}

    def _workspace_edit(self, edit: Json) -> Json:
        made = dict(edit)
        if edit.get("changes") is not None:
            made["changes"] = {
                uri: own for other, edits in edit["changes"].items() for uri, own in self._by_cell(other, edits).items()
            }
        if edit.get("documentChanges") is not None:
            made["documentChanges"] = [own for each in edit["documentChanges"] for own in self._document_edits(each)]
        return made

    def _document_edits(self, change: Json) -> Iterator[Json]:
        identifier = change.get("textDocument")
        if identifier is None or identifier["uri"] not in self._notebooks:
            yield change
            return
        for uri, edits in self._by_cell(identifier["uri"], change["edits"]).items():
            version = None if identifier.get("version") is None else self._version(uri)
            yield {**change, "textDocument": {"uri": uri, "version": version}, "edits": edits}

    def _by_cell(self, uri: str, edits: list[Json]) -> dict[str, list[Json]]:
        notebook = self._notebooks.get(uri)
        if notebook is None:
            return {uri: edits}
        found: dict[str, list[Json]] = {}
        for each in edits:
            cell = notebook.at(each["range"]["start"]["line"])
            found.setdefault(cell.uri, []).append(self._edit(each, cell))
        return found

    def _edit(self, edit: Json, cell: Cell) -> Json:
        """The last line of a cell has no end of its own, as those before it in the notebook's text have."""
        start, end, text = edit["range"]["start"], edit["range"]["end"], edit["newText"]
        if not cell.first <= end["line"] <= cell.after or (end["line"] == cell.after and end["character"]):
            raise _Nowhere
        if start == end and start["line"] == cell.first and cell.written[0].startswith("%%") and not start["character"]:
            start = end = {"line": start["line"] + 1, "character": 0}  # that line has to stay the first
        first, last = start["line"] - cell.first, end["line"] - cell.first
        touched = slice(first, last if last > first and not end["character"] else last + 1)
        if start != end and cell.written[touched] != cell.text[touched]:
            raise _Nowhere
        if _is_commented(cell):
            raise _Nowhere
        if last == len(cell.written):
            if first == last:
                text = f"\n{text.removesuffix(chr(10))}"
            elif text or not first or start["character"]:
                text = text.removesuffix("\n")
            else:
                start = {"line": start["line"] - 1, "character": self._width(cell, first - 1)}
        place = {"start": self._position(start, cell), "end": self._position(end, cell)}
        return {**edit, "range": place, "newText": text}

    def _width(self, cell: Cell, line: int) -> int:
        return positions.character(cell.written[line], 1 << 30, self._encoding())


def _is_commented(cell: Cell) -> bool:
    """Whether none of it counts as Python: another language, or text that does not parse."""
    return all(text == f"# {written}" for text, written in zip(cell.text, cell.written, strict=True))


def _published(uri: str, diagnostics: list[Json]) -> Json:
    params = {"uri": uri, "diagnostics": diagnostics}
    return {"jsonrpc": "2.0", "method": types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, "params": params}
