"""Translates messages between the cells of open notebooks and the documents that join them: the only place that knows
both. Messages about a cell are rewritten to its notebook before features read them, and messages about a notebook are
rewritten to its cells before they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from lsprotocol import types

from fxlens.sources.cell import Cell, Nowhere, cells_of
from fxlens.sources.notebook import Notebook

Json = dict[str, Any]
_SYNCHRONISED = ("notebookDocument/", "textDocument/did")
"""Methods that are about the cells themselves."""
_TEXTS = ("message", "title", "label", "tooltip", "value")
_CHANGED = {"code": types.LSPErrorCodes.ContentModified.value, "message": "The cells have changed meanwhile."}
_TOO_WIDE = "FX Lens changed nothing: the edit would span several cells, or change a line that is not Python."


class Joined:
    """A notebook: its document's address and text, and the cells of that text."""

    def __init__(self, uri: str, made: Notebook, cells: list[str]) -> None:
        self.uri = uri
        self.made = made
        self.cells = cells_of(made, cells)

    @property
    def code(self) -> tuple[str, list[str]]:
        """The parts that matter for a trace."""
        return self.made.text, [cell.uri for cell in self.cells]

    @property
    def layout(self) -> list[tuple[str, int, int]]:
        """The layout: which cell each line belongs to."""
        return [(cell.uri, cell.first, cell.after) for cell in self.cells]

    def cell(self, uri: str) -> Cell:
        return next(each for each in self.cells if each.uri == uri)

    def at(self, line: int) -> Cell:
        """The cell that contains a line (from 0), or ends at it."""
        found = self.made.holding(line + 1)
        if found is None:
            raise Nowhere
        return self.cells[found]


class Cells:
    """``version(uri)`` is the current version of a cell's text, ``encoding()`` the position encoding."""

    def __init__(self, version: Callable[[str], int | None], encoding: Callable[[], str]) -> None:
        self._version, self._encoding = version, encoding
        self._notebooks: dict[str, Joined] = {}
        self._notebook_of: dict[str, str] = {}
        self._asked: dict[Any, tuple[str, Joined]] = {}
        """The cells of pending requests, and their notebooks at the time of the request."""
        self._sent: dict[str, Json] = {}
        """The last diagnostics of each cell."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to translate."""
        return not self._notebooks and not self._asked

    def speak_in(self, number: Any, answer: bytes) -> bool:
        """Whether a JSON answer must be translated to cells: its request was about one, or it contains a notebook's
        address."""
        return number in self._asked or any(json.dumps(uri).encode() in answer for uri in self._notebooks)

    def put(self, notebook: Joined) -> list[str]:
        """Updates a notebook; returns removed cells that had diagnostics."""
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
        """A message of the client, rewritten to the notebook if it is about a cell."""
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
        """The messages to send in place of one; ``plain`` converts one to JSON."""
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
        except Nowhere:
            if "method" not in message:
                return [{**message, "result": None}]
            shown = {"type": types.MessageType.Warning.value, "message": _TOO_WIDE}
            return [{"jsonrpc": "2.0", "method": types.WINDOW_SHOW_MESSAGE, "params": shown}]

    def _diagnostics(self, notebook: Joined, params: Json) -> Iterator[Json]:
        """One message for each cell whose diagnostics have changed."""
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
        """The value translated to cells. If the request was about a cell, ranges without an address are in ``cell``,
        and lists keep only the entries in it."""
        if isinstance(value, list):
            return list(self._each_in_cells(value, cell))
        if not isinstance(value, dict):
            return value
        if "changes" in value or "documentChanges" in value:
            return self._workspace_edit(value)
        if value.get("cell") is not None:
            return value  # a row of the table of models already names its cell
        notebook = self._notebooks.get(value["uri"]) if isinstance(value.get("uri"), str) else None
        if notebook is not None and "range" in value:
            there = notebook.at(value["range"]["start"]["line"])
            return {**value, "uri": there.uri, "range": there.range(value["range"], self._encoding())}
        if notebook is not None and "line" in value:
            there = notebook.at(value["line"])
            return {**value, "uri": there.uri, "line": value["line"] - there.first}
        if cell is not None and str(value.get("kind")).startswith("source.") and "edit" in value:
            edit = self._workspace_edit(value["edit"], cell)
            if not any(edit.values()):
                raise Nowhere
            return {
                **self._in_cells({name: each for name, each in value.items() if name != "edit"}, cell),
                "edit": edit,
            }
        if cell is None or "uri" in value:
            return {name: self._in_cells(each, cell) for name, each in value.items()}
        # Python's message names lines of the cell that it cannot parse.
        kept = {"message"} if value.get("code") == "FX308" else set()
        return {name: each if name in kept else self._member(name, each, cell) for name, each in value.items()}

    def _each_in_cells(self, values: list[Any], cell: Cell | None) -> Iterator[Any]:
        for each in values:
            try:
                yield self._in_cells(each, cell)
            except Nowhere:
                continue

    def _member(self, name: str, value: Any, cell: Cell) -> Any:
        if name == "range" and isinstance(value, dict) and "start" in value:
            return cell.range(value, self._encoding())
        if name == "position" and isinstance(value, dict) and "line" in value:
            return cell.position(value, self._encoding())
        if name in _TEXTS and isinstance(value, str):
            return self._notebooks[self._notebook_of[cell.uri]].made.said(value, cell.first + 1)
        return self._in_cells(value, cell)

    def _workspace_edit(self, edit: Json, only: Cell | None = None) -> Json:
        """An edit of cells; ``only``: what it changes in this one."""
        made = dict(edit)
        if edit.get("changes") is not None:
            made["changes"] = {
                uri: own
                for other, edits in edit["changes"].items()
                for uri, own in self._by_cell(other, edits, only).items()
            }
        if edit.get("documentChanges") is not None:
            made["documentChanges"] = [
                own for each in edit["documentChanges"] for own in self._document_edits(each, only)
            ]
        return made

    def _document_edits(self, change: Json, only: Cell | None) -> Iterator[Json]:
        identifier = change.get("textDocument")
        if identifier is None or identifier["uri"] not in self._notebooks:
            yield change
            return
        for uri, edits in self._by_cell(identifier["uri"], change["edits"], only).items():
            version = None if identifier.get("version") is None else self._version(uri)
            yield {**change, "textDocument": {"uri": uri, "version": version}, "edits": edits}

    def _by_cell(self, uri: str, edits: list[Json], only: Cell | None) -> dict[str, list[Json]]:
        notebook = self._notebooks.get(uri)
        if notebook is None:
            return {uri: edits}
        found: dict[str, list[Json]] = {}
        for each in edits:
            cell = notebook.at(each["range"]["start"]["line"])
            if only is None or cell.uri == only.uri:
                found.setdefault(cell.uri, []).append(cell.edit(each, self._encoding()))
        return found


def _published(uri: str, diagnostics: list[Json]) -> Json:
    params = {"uri": uri, "diagnostics": diagnostics}
    return {"jsonrpc": "2.0", "method": types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, "params": params}
