"""Inlay hints: the value of each traced line at its end, and, after an expression that is read only while tracing, the
value that the graph keeps of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.record import assumed
from fxlens.sources import positions
from fxlens.sources.paths import key
from fxlens.views import texts
from fxlens.views.drawing import value_text
from fxlens.views.source_nodes import LineValue, line_values, several

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_BAKED = "Read only while tracing: the graph always uses this value."


def register(server: FxLensServer) -> None:
    server.on_traced.append(refresh)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hints(ls: FxLensServer, params: types.InlayHintParams) -> list[types.InlayHint]:
        first, last = params.range.start.line, params.range.end.line
        # In a thread: a large graph takes a second.
        try:
            found = await asyncio.to_thread(_hints, ls, params.text_document.uri)
        except LookupError:  # the document has changed since
            found = _hints(ls, params.text_document.uri)
        return [hint for hint in found if first <= hint.position.line <= last]


def _hints(ls: FxLensServer, uri: str) -> list[types.InlayHint]:
    if (subject := ls.views.subject(uri)) is not None:
        source = ls.session.documents.get(subject.source)
        length = ls.session.settings_for(source.folder if source else None).shapesLength
        return list(_in_view(ls, subject, length))
    document = ls.session.documents.get(uri)
    if document is None:
        return []
    settings = ls.session.settings_for(document.folder)
    return [*(_shapes(ls, document, settings.shapesLength) if settings.shapes else ()), *_times(ls, document)]


def _shapes(ls: FxLensServer, document: Document, length: int) -> list[types.InlayHint]:
    """Recorded calls in other documents say more than assumptions about a model here."""
    supposed = {each["name"] for each in document.record["targets"] if assumed(each)} if document.record else set()
    of_readers = list(_of_readers(ls, document, length, supposed))
    return [*_own(ls, document, length, {hint.position.line for hint in of_readers}), *of_readers]


def _own(ls: FxLensServer, document: Document, length: int, known: set[int]) -> Iterator[types.InlayHint]:
    """Between an edit and its trace, hints stay at unchanged lines. Lines in ``known`` (from 0) already have their
    shapes."""
    if document.record is None:
        return
    lines = document.lines
    moved = positions.moved_lines(positions.lines_of(document.record_text), lines)
    for value in line_values(document.record, document.path):
        line = moved.get(value.line)
        if line is not None and line - 1 not in known:
            note = value.each() if len(value.values) > 1 else []
            yield _at_end(value.text(), line - 1, lines, ls.encoding, note, length)
    seen = set()
    for target in document.record["targets"]:
        for each in target["baked"]:
            line, mark = moved.get(each["span"]["end_line"]), tuple(each["span"].values())
            if line is None or mark in seen or key(each["span"]["file"]) != key(document.path):
                continue
            seen.add(mark)
            character = positions.character(lines[line - 1], each["span"]["end_column"], ls.encoding)
            baked = f"= {each['value']}"
            yield types.InlayHint(
                position=types.Position(line=line - 1, character=character),
                label=_cut(baked, length),
                padding_left=True,
                tooltip=_BAKED if len(baked) <= length else f"{baked}\n{_BAKED}",
            )


def _of_readers(ls: FxLensServer, document: Document, length: int, supposed: set[str]) -> Iterator[types.InlayHint]:
    """Hints from models of other open documents, for lines that the document's own models (except the ``supposed``
    ones) do not cover."""
    own = line_values(document.record, document.path) if document.record else []
    known = {value.line for value in own if value.target not in supposed}
    lines = document.lines
    for reader, record in ls.session.readers(document):
        for value in line_values(record, document.path):
            if value.line in known or value.line > len(lines):
                continue
            known.add(value.line)
            label = f"{value.text()} · {_label(value)}"
            note = [f"Called by {value.target} of {os.path.basename(reader.path)}", *value.each()]
            yield _at_end(label, value.line - 1, lines, ls.encoding, note, length)


def _times(ls: FxLensServer, document: Document) -> Iterator[types.InlayHint]:
    """Times of the last benchmark by line, as long as the text is unchanged."""
    times = ls.layer_times.get(document.uri)
    if times is None or times.text != document.text:
        return
    for line, label, note in times.by_line(document.uri):
        yield _at_end(label, line, document.lines, ls.encoding, note)


def _label(value: LineValue) -> str:
    """The call that a value belongs to: the module that was called, or the model if there are several."""
    modules = list(dict.fromkeys(value.modules))
    return several([modules[0] or value.target], 1) if len(modules) == 1 else value.target


def _in_view(ls: FxLensServer, subject: texts.Subject, length: int) -> Iterator[types.InlayHint]:
    """The generated forward has its shapes too; the other views write them out."""
    target = ls.views.target(subject)
    if target is None or subject.view != "code":
        return
    text, where = texts.text_of(target, subject.view)
    lines = text.split("\n")
    for node in target["nodes"]:
        if node["op"] in ("placeholder", "output") or node["name"] not in where or not (value := value_text(node)):
            continue
        yield _at_end(value, where[node["name"]][1], lines, ls.encoding, [], length)


def _at_end(
    label: str, line: int, lines: list[str], encoding: str, note: list[str], length: int = 1000
) -> types.InlayHint:
    """A hint of ``length`` characters at most; a longer one is in full in its tooltip."""
    note = [label, *note] if len(label) > length else note
    content = lines[line].rstrip()
    return types.InlayHint(
        position=types.Position(line=line, character=positions.character(content, 1 << 30, encoding)),
        label=_cut(label, length),
        padding_left=True,
        tooltip="\n".join(note) or None,
    )


def _cut(text: str, length: int) -> str:
    """Cut in the middle, since both ends of a hint matter."""
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - head - 1) :]}"


def refresh(ls: FxLensServer, document: Document) -> None:
    workspace = ls.client_capabilities.workspace
    if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
        ls.workspace_inlay_hint_refresh(None, lambda _: None)
