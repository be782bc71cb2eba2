"""Hover: the node of the expression under the cursor, what a name holds, and the totals of a model at its name."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.record import Record, Span, Target, assumed, name_span
from fxlens.sources import positions
from fxlens.sources.members import Member, member_at
from fxlens.sources.names import Name, name_at
from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import key
from fxlens.views import descriptions, modules, source_nodes, texts

from .places import to_range

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_PATIENCE = 1.0
"""Seconds to wait for a trace if nothing is known yet of a line that may belong to a model."""
_PATIENCE_FOR_NAMES = 3.0
"""Seconds to wait for what names hold, which takes one more trace for each text."""
_PATIENCE_FOR_OTHERS = 0.5
"""Seconds to wait for what they hold in a further model, if one is known."""
_MOST_MODELS = 2  # that are asked for what a name holds
_MOMENT = 0.05
"""Seconds to wait if the last trace can answer too, or probably no trace will."""
_CLASS = re.compile(r"^[ \t]*class\s+\w+\s*\(", re.MULTILINE)

Hovered = tuple[str, Span]
"""Markdown, and the span that it describes."""


def register(server: FxLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: FxLensServer, params: types.HoverParams) -> types.Hover | None:
        at = params.position
        if (subject := ls.views.subject(params.text_document.uri)) is not None:
            return _markup(in_view(ls, subject, at.line, at.character), None)
        document = ls.session.documents.get(params.text_document.uri)
        if document is None:
            return None
        # During editing, the previous trace still holds for every unchanged line.
        waited = ls.session.record(document.uri)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(waited, _PATIENCE if _may_know_more(document, at.line) else _MOMENT)
        if at.line >= len(document.lines):
            return None
        column = positions.column(document.lines[at.line], at.character, ls.encoding)
        named, known = await _of_name(ls, document, at.line, column)
        found = (
            (named if known else None)
            or _own(ls, document, at.line, column)
            or _of_readers(ls, document, at.line + 1, column)
            or _of_member(ls, document, at.line + 1, column)
            or named
        )
        if found is None:
            return None
        text, span = found
        return _markup(text, to_range(positions.lsp_range(span, document.lines, ls.encoding)))


def _may_know_more(document: Document, line: int) -> bool:
    """Whether a running trace may know something about a line (from 0) that the last one did not."""
    return document.line_of_record(line) is None and _CLASS.search(document.text) is not None


def in_view(ls: FxLensServer, subject: texts.Subject, line: int, character: int) -> str | None:
    """Markdown of the node at a position of a view."""
    target = ls.views.target(subject)
    node = texts.node_at(target, subject.view, line, character) if target else None
    if target is None or node is None:
        return None
    place = source_nodes.Occurrence(node["span"] or name_span(target, ""), node, True, target["name"])
    return descriptions.describe([place], target)


async def _of_name(ls: FxLensServer, document: Document, line: int, column: int) -> tuple[Hovered | None, bool]:
    """What a name at a position (from 0) holds: in the document's own models, or, where their inputs are assumed, in
    those of other documents that run through it.  And whether that says more than the expression around it."""
    if document.is_long:
        return None, False
    path, was, readers = document.path, document.line_of_record(line), ls.session.readers(document)
    own: tuple[list[Target], Name] | None = None
    if document.record is not None and was is not None:
        name = name_at(document.record_text, path, was, column)
        if name is not None and source_nodes.is_a_node(document.record, path, name.span):
            return None, False
        if name is not None:
            own = source_nodes.models_of(document.record, path, was, name.first, name.last), name
    if own is None or not own[0] or assumed(own[0][0]):
        name = name_at(document.text, path, line + 1, column) if readers else None
        for reader, record in readers if name else ():
            models = name and source_nodes.models_of(record, path, line + 1, name.first, name.last)
            file = f" of {descriptions.code(os.path.basename(reader.path))}"
            if name and models and (found := await _held(ls, reader, models, name, file)) and found[1]:
                return (found[0], name.span), True
    if own is None or was is None or (found := await _held(ls, document, *own)) is None:
        return None, False
    # The edit may have changed the value, and until its trace ends nobody knows.
    late = "" if document.text == document.record_text else "\n\nBefore the latest edit, which is not traced yet"
    return _moved((found[0] + late, own[1].span), line + 1 - was), found[1]


async def _held(
    ls: FxLensServer, reader: Document, models: list[Target], name: Name, file: str = ""
) -> tuple[str, bool] | None:
    """What a name holds in a document's models, the one that counts first; and whether it is more than that nothing is
    known.  Where several models run a helper, each value says whose it is; ``file`` follows the model's name."""
    unknown = None
    said: dict[frozenset[str], tuple[str, list[str]]] = {}
    others = [target["name"] for target in models if not assumed(target)]
    for target in models[:_MOST_MODELS]:
        if said and assumed(target):
            continue
        known = await ls.session.names(reader, target, _PATIENCE_FOR_OTHERS if said else _PATIENCE_FOR_NAMES)
        if known and target["name"] in others:
            others.remove(target["name"])
        values = known.get((key(name.span["file"]), name.line, name.text, name.stored), [])
        if not values:
            continue
        text = descriptions.describe_name(name.text, values, target)
        if any(each.text for each in values):
            same = said.setdefault(frozenset(each.text for each in values), (text, []))
            same[1].append(descriptions.code(target["name"]))
        else:
            # Where a value is not known that is read, the expression around it may say more.
            unknown = unknown or (text, name.stored)
    if not said:
        return unknown
    alone = len(said) == 1 and not others and not file
    parts = [text if alone else f"{text}\n\nIn {', '.join(names)}{file}" for text, names in said.values()]
    if others:
        parts[-1] += (
            f". Other models may run it with other values: {source_nodes.several([*map(descriptions.code, others)])}"
        )
    return "\n\n---\n\n".join(parts), True


def _moved(found: Hovered, by: int) -> Hovered:
    text, span = found
    return text, {**span, "line": span["line"] + by, "end_line": span["end_line"] + by}


def _own(ls: FxLensServer, document: Document, line: int, column: int) -> Hovered | None:
    """Hover from the document's own record; the span is in the current text."""
    was = document.line_of_record(line)
    if was is None or document.record is None:
        return None
    target = source_nodes.class_at(document.record, was, column)
    if target is not None:
        text, span = descriptions.describe_target(target), name_span(target, document.path)
    else:
        found = source_nodes.at(document.record, document.path, was, column)
        if not found:
            return None
        owner = _owner(document.record, found)
        if assumed(owner) and _of_readers(ls, document, line + 1, column) is not None:
            return None
        span = found[0].span
        text = descriptions.describe(found, owner, _line(positions.lines_of(document.record_text), span))
        if others := source_nodes.differing(document.record, document.path, found):
            said = source_nodes.several([*map(descriptions.code, others)])
            text += f"\n\nIn {descriptions.code(owner['name'])}. Other models run it with other values: {said}"
        text += descriptions.lowering(ls.session.selected(document, owner["lowering"]), span)
    return _moved((text, span), line + 1 - was)


def _of_readers(ls: FxLensServer, document: Document, line: int, column: int) -> Hovered | None:
    """Hover from models of other documents that run this position, with the calls that led to it."""
    for reader, record in ls.session.readers(document):
        found = source_nodes.at(record, document.path, line, column)
        if found:
            text = descriptions.describe(found, _owner(record, found), _line(document.lines, found[0].span))
            return f"{text}\n\n---\n\n{origin(reader, found)}", found[0].span
    return None


def origin(reader: Document, found: list[source_nodes.Occurrence]) -> str:
    """Markdown of the calls in another document that lead to these nodes."""
    calls: dict[tuple[int, int], Span] = {}
    for place in found:
        for span in place.node["call_path"]:
            if key(span["file"]) == key(reader.path):
                calls.setdefault((span["line"], span["column"]), span)
    file = os.path.basename(reader.path)
    head = f"Called by {descriptions.code(found[0].target)} of {descriptions.code(file)}"
    lines = positions.lines_of(reader.record_text)
    # Lines of a notebook's joined text mean nothing to the user.
    number = "" if is_notebook(reader.path) else "line {} "
    lines_of_calls = [number.format(span["line"]) + descriptions.code(_line(lines, span)) for span in calls.values()]
    return f"{head}: {source_nodes.several(lines_of_calls)}" if lines_of_calls else head


def _line(lines: list[str], span: Span) -> str:
    if span["line"] > len(lines):
        return ""
    text = lines[span["line"] - 1].encode("utf-8", "surrogatepass")
    last = span["end_column"] if span["end_line"] == span["line"] else len(text)
    return text[span["column"] : last].decode("utf-8", "replace")


def _owner(record: Record, found: list[source_nodes.Occurrence]) -> Target:
    return next(each for each in record["targets"] if each["name"] == found[0].target)


def _of_member(ls: FxLensServer, document: Document, line: int, column: int) -> Hovered | None:
    """Hover for a submodule, at the line (from 1) of the constructor that creates it."""
    member = None if document.is_long else member_at(document.text, document.path, line, column)
    own = [(document, document.record)] if document.record is not None else []
    known = [
        (reader, found)
        for reader, record in [*own, *ls.session.readers(document)]
        if member is not None and (found := modules.instances(record, document.path, member.owner)) is not None
    ]
    # A model with given inputs says more than one with assumed inputs.
    for reader, found in sorted(known, key=lambda each: assumed(each[1].target)):
        assert member is not None
        text = descriptions.describe_member(member, found, _uses(document, reader, member, found))
        if text is not None:
            return text, member.span
    return None


def _uses(document: Document, reader: Document, member: Member, found: modules.Instances) -> list[str]:
    """The lines of the class, as Markdown, that call one of its submodules."""
    lines = positions.lines_of(reader.record_text) if reader is document else document.lines
    moved = positions.moved_lines(lines, document.lines)
    paths = [f"{path}.{member.path}".lstrip(".") for path in found.paths]
    spans = {
        (span["line"], span["column"]): span
        for path in paths
        for node in modules.within(found.target["nodes"], path)
        for span in (*node["call_path"], node["span"])
        if span is not None and key(span["file"]) == key(document.path)
        if member.first <= moved.get(span["line"], 0) <= member.last
    }
    return [f"line {moved[span['line']]} {descriptions.code(_line(lines, span))}" for span in spans.values()]


def _markup(text: str | None, place: types.Range | None) -> types.Hover | None:
    if text is None:
        return None
    return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=text), range=place)
