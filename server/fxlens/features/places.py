"""From spans to an editor's ranges: files as they are in the editor, and the places of nodes in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from lsprotocol import types
from pygls import uris

from fxlens.answers import Place
from fxlens.record import Located, Span
from fxlens.sources import files, positions
from fxlens.sources.paths import key

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def places(ls: FxLensServer, document: Document, nodes: Iterable[Located]) -> dict[str, list[Place]]:
    """Node name to its ranges: its own expression first, then the calls that lead to it, innermost first."""
    files: dict[str, tuple[str, list[str]]] = {}
    converted: dict[tuple[object, ...], Place] = {}

    def place(span: Span) -> Place:
        mark = tuple(span.values())
        if mark not in converted:
            if span["file"] not in files:
                files[span["file"]] = file_of(ls, document, span["file"])
            uri, lines = files[span["file"]]
            converted[mark] = {"uri": uri, "range": positions.lsp_range(span, lines, ls.encoding)}
        return converted[mark]

    found = {}
    for node in nodes:
        spans = [node["span"], *reversed(node["call_path"])]
        own = {tuple(span.values()): span for span in spans if span is not None}
        found[node["name"]] = [place(span) for span in own.values()]
    return found


def address_of(path: str) -> str:
    """The URI of a file, whose name may be of bytes that are no UTF-8."""
    try:
        return uris.from_fs_path(path) or ""
    except UnicodeEncodeError:
        return "file://" + quote_from_bytes(os.fsencode(path))


def file_of(ls: FxLensServer, document: Document, path: str) -> tuple[str, list[str]]:
    """The address of a file, and its lines in the editor."""
    if key(path) == key(document.path):
        return document.uri, document.lines
    other = ls.session.document_at(path)
    if other is not None:
        return other.uri, other.lines
    text = ls.session.opened_configuration(path)
    return address_of(path), positions.lines_of(files.read_shown(path) if text is None else text)


def is_there(ls: FxLensServer, document: Document, path: str) -> bool:
    """Whether a file exists, on disk or in the editor."""
    opened = ls.session.document_at(path) or ls.session.opened_configuration(path)
    return key(path) == key(document.path) or opened is not None or os.path.lexists(path)


def location(ls: FxLensServer, document: Document, span: Span) -> types.Location:
    uri, lines = file_of(ls, document, span["file"])
    return types.Location(uri=uri, range=to_range(positions.lsp_range(span, lines, ls.encoding)))


def to_range(value: positions.Range) -> types.Range:
    return types.Range(start=types.Position(**value["start"]), end=types.Position(**value["end"]))
