"""Navigation between source and views by an editor's own keys: definition leads from a line of a view to the source,
and implementation from an expression of the source to the lines of its generated forward.

Command ``fxlens.openView`` ``[uri, target, view]`` is for editors that cannot show the server's own documents: it
writes the view to a file, asks the editor to show it, and answers ``{uri}`` or ``{reason}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.record import name_span
from fxlens.sources import positions
from fxlens.views import source_nodes, texts

from .code_lens import OPEN_VIEW, client_commands
from .places import location

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def register(server: FxLensServer) -> None:
    server.on_traced.append(lambda ls, document: ls.views.refresh(document.uri))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(ls: FxLensServer, params: types.DefinitionParams) -> list[types.Location]:
        subject = ls.views.subject(params.text_document.uri)
        target = ls.views.target(subject) if subject else None
        if subject is None or target is None:
            return []  # other servers handle the source itself
        node = texts.node_at(target, subject.view, params.position.line, params.position.character)
        document = ls.session.documents.get(subject.source)
        if node is None or document is None:
            return []
        # Inputs and the output have no expression: they lead to the class's name.
        return [location(ls, document, node["span"] or name_span(target, document.path))]

    @server.feature(types.TEXT_DOCUMENT_IMPLEMENTATION)
    async def implementation(ls: FxLensServer, params: types.ImplementationParams) -> list[types.Location]:
        document = ls.session.documents.get(params.text_document.uri)
        if document is None or params.position.line >= len(document.lines):
            return []
        at = params.position
        column = positions.column(document.lines[at.line], at.character, ls.encoding)
        return generated(ls, document, at.line, column)

    @server.command(OPEN_VIEW)
    async def open_view(ls: Any, uri: str, target: str, view: str = "code") -> dict[str, str]:
        if view not in texts.VIEWS:
            return {"reason": f"There is no view {view!r}. The views are {', '.join(texts.VIEWS)}."}
        await ls.session.record(uri)
        try:
            address = ls.views.write(texts.Subject(uri, target, view))
        except OSError as error:
            return {"reason": f"The view cannot be written: {error.strerror}."}
        if address is None:
            return {"reason": f"There is no graph of {target}; the file's problems say why."}
        window = ls.client_capabilities.window
        if window and window.show_document and window.show_document.support:
            ls.window_show_document(types.ShowDocumentParams(uri=address, take_focus=True), lambda _: None)
        return {"uri": address}


def generated(ls: FxLensServer, document: Document, line: int, column: int) -> list[types.Location]:
    """The lines of generated forwards that come from an expression (line from 0)."""
    record, was = document.record, document.line_of_record(line)
    found = source_nodes.at(record, document.path, was, column) if record is not None and was is not None else []
    sources = [(document, found)] if found else _of_readers(ls, document, line + 1, column)
    locations = []
    for owner, each in sources:
        subject = texts.Subject(owner.uri, each[0].target, "code")
        target = ls.views.target(subject)
        address = subject.address() if "fxlens.showCode" in client_commands(ls) else ls.views.write(subject)
        if target is None or address is None:
            continue
        shown = texts.text_of(target, "code")
        content, where = shown.text.split("\n"), shown.lines
        for first, last in dict.fromkeys(
            tuple(where[place.node["name"]]) for place in each if place.node["name"] in where
        ):
            start = len(content[first]) - len(content[first].lstrip())
            end = positions.character(content[last], 1 << 30, ls.encoding)
            place = types.Range(start=types.Position(first, start), end=types.Position(last, end))
            locations.append(types.Location(uri=address, range=place))
    return locations


def _of_readers(
    ls: FxLensServer, document: Document, line: int, column: int
) -> list[tuple[Document, list[source_nodes.Occurrence]]]:
    for reader, record in ls.session.readers(document):
        found = source_nodes.at(record, document.path, line, column)
        if found:
            return [(reader, found)]
    return []
