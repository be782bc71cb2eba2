"""Open documents: tells the session what the client opened, edited, saved and closed."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls import uris

from fxlens.config.project import is_configuration

from .lifecycle import folders

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
        folder = folder_of(ls, path)
        if not os.path.isabs(path):
            path = os.path.join(folder or tempfile.gettempdir(), path)
        text = ls.workspace.get_text_document(item.uri).source
        ls.session.opened(item.uri, path, folder, text, item.version)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: FxLensServer, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in ls.session.documents:
            ls.session.changed(uri, ls.workspace.get_text_document(uri).source, params.text_document.version)
        elif (path := path_of(uri)) is not None and is_configuration(path):
            ls.session.configuration_opened(path, ls.workspace.get_text_document(uri).source)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: FxLensServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.session.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: FxLensServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.session.closed(params.text_document.uri)
        path = path_of(params.text_document.uri)
        if path is not None and is_configuration(path):
            ls.session.configuration_opened(path, None)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def on_disk(ls: FxLensServer, params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            path = path_of(change.uri)
            opened = path and ls.session.opened_configuration(path) is not None
            if path and not opened and ls.session.document_at(path) is None:
                ls.session.changed_on_disk(path)


def path_of(uri: str) -> str | None:
    """The path of a ``file:`` document; a bare name for an unsaved one; None for what is no file (notebook cells,
    diffs)."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        path = uris.to_fs_path(uri)
        return path if path and "\0" not in path else None
    if parts.scheme == "untitled":
        name = os.path.basename(unquote(parts.path)) or "untitled"
        return name if name.endswith(".py") else f"{name}.py"
    return None


def folder_of(ls: FxLensServer, path: str) -> str | None:
    """The innermost workspace folder that holds the path; the first folder for an unsaved document."""
    known = folders(ls)
    if not os.path.isabs(path):
        return known[0] if known else None
    holding = [folder for folder in known if os.path.commonpath([folder, path]) == folder]
    return max(holding, key=len, default=None)
