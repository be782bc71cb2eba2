"""Open notebooks: their cells of Python are joined into one document of the session, at the notebook's address.
``cells`` maps its lines to cells."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.sources.notebook import Notebook

from .cells import Joined
from .documents import closed_in, say_if_only_read
from .folders import notebook_path, placed

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

SCHEMES = ("file", "untitled", "vscode-interactive")
SYNCHRONISATION = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(notebook=types.NotebookDocumentFilterScheme(scheme=scheme))
        for scheme in SCHEMES
    ],
    save=True,
)


def register(server: FxLensServer) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened(ls: FxLensServer, params: types.DidOpenNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        path = notebook_path(uri)
        if path is None:
            return
        path, folder = placed(ls, path)
        joined = _joined(ls, uri, None)
        ls.cells.put(joined)
        ls.session.opened(uri, path, folder, joined.made.text, 1, joined.made.problems(path))
        say_if_only_read(ls, uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed(ls: FxLensServer, params: types.DidChangeNotebookDocumentParams) -> None:
        uri, cells = params.notebook_document.uri, params.change.cells
        before, document = ls.cells.get(uri), ls.session.documents.get(uri)
        if before is None or document is None or cells is None or not (cells.structure or cells.text_content):
            return
        typed = [each.document.uri for each in cells.text_content or ()]
        joined = _joined(ls, uri, typed[-1] if typed else None)
        for gone in ls.cells.put(joined):
            ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=gone, diagnostics=[]))
        if joined.code == before.code:  # a cell that is not Python changed
            if joined.made.cells != before.made.cells:
                ls.session.show_again(uri)  # messages contain cell numbers
            return
        version = (document.version or 0) + 1
        ls.session.changed(uri, joined.made.text, version, joined.made.problems(document.path))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved(ls: FxLensServer, params: types.DidSaveNotebookDocumentParams) -> None:
        ls.session.saved(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def closed(ls: FxLensServer, params: types.DidCloseNotebookDocumentParams) -> None:
        await closed_in(ls, params.notebook_document.uri)


def _joined(ls: FxLensServer, uri: str, typed: str | None) -> Joined:
    """The current notebook; ``typed`` is the cell that was edited last."""
    notebook = ls.workspace.get_notebook_document(notebook_uri=uri)
    code = [
        (number, cell.document)
        for number, cell in enumerate(notebook.cells if notebook else (), 1)
        if cell.kind == types.NotebookCellKind.Code
    ]
    documents = [(number, ls.workspace.get_text_document(cell)) for number, cell in code]
    documents = [(number, each) for number, each in documents if each.language_id == "python"]
    edited = next((number for number, each in documents if each.uri == typed), None)
    name = os.path.basename(notebook_path(uri) or "")
    before = ls.cells.get(uri)
    known = before.made.known if before else {}
    made = Notebook.joined([(number, each.source) for number, each in documents], edited, name, known)
    return Joined(uri, made, [each.uri for _, each in documents])
