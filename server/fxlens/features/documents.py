"""Open documents: tells the session which documents the client opened, edited, saved and closed, and where its cursor
is (``fxlens/cursor`` with ``uri`` and ``line``, from 0: the class there is traced first, and shown as a problem, not as
a hint)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.config.project import is_configuration

from . import params as parameters
from .folders import path_of, placed

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def register(server: FxLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: FxLensServer, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = path_of(item.uri)
        if path is not None and is_configuration(path):
            ls.session.configuration_opened(path, ls.workspace.get_text_document(item.uri).source)
            return
        if item.language_id != "python" or path is None or ls.views.subject(item.uri) is not None:
            return
        path, folder = placed(ls, path)
        text = ls.workspace.get_text_document(item.uri).source
        ls.session.opened(item.uri, path, folder, text, item.version)
        say_if_only_read(ls, item.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: FxLensServer, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in ls.session.documents:
            ls.session.changed(uri, ls.workspace.get_text_document(uri).source, params.text_document.version)
        elif (path := path_of(uri)) is not None and is_configuration(path):
            ls.session.configuration_opened(path, ls.workspace.get_text_document(uri).source)

    @server.feature("fxlens/cursor")
    def cursor(ls: FxLensServer, params: Any) -> None:
        plain = parameters.of(params)
        line = plain.get("line")
        ls.tells_cursor = True
        if isinstance(line, int):
            ls.session.moved_to(parameters.text(plain, "uri"), line)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: FxLensServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.session.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(ls: FxLensServer, params: types.DidCloseTextDocumentParams) -> None:
        await closed_in(ls, params.text_document.uri)
        path = path_of(params.text_document.uri)
        if path is not None and is_configuration(path):
            ls.session.configuration_opened(path, None)


def say_if_only_read(ls: FxLensServer, uri: str) -> None:
    """Show why the models of a document that was opened in a trusted workspace are not run."""
    document = ls.session.documents[uri]
    reason = ls.session.why_not_run(document)
    if ls.session.trusted and reason is not None and "torch" in document.text:
        said = f"{os.path.basename(document.path)}: {reason}"
        ls.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=said))


async def closed_in(ls: FxLensServer, uri: str) -> None:
    """Handle the closing of a document or notebook."""
    ls.session.closed(uri)
    ls.cells.close(uri)
    ls.layer_times.pop(uri, None)
    await ls.model_jobs.release(uri)
