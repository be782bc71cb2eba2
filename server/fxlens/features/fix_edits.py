"""A fix as LSP edits: a list for each document, new files created first, and a title that says if it was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.record import Fix
from fxlens.sources import positions

from .places import file_of, is_there, to_range

SHOW = "fxlens.showChange"
"""The server's own command: opens a file at a line, counted from 0."""

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def title(fix: Fix, checking: bool) -> str:
    """The fix's title, and whether it has been checked yet."""
    if fix["checked"]:
        return fix["title"]
    return f"{fix['title']} ({'being checked' if checking else 'not checked'})"


def workspace_edit(ls: FxLensServer, document: Document, fix: Fix) -> types.WorkspaceEdit:
    """The edits of a fix. Where it writes a new file, a client that supports this is asked to create it."""
    changes: dict[str, list[types.TextEdit]] = {}
    new: list[str] = []
    for edit in fix["edits"]:
        uri, lines = file_of(ls, document, edit["file"])
        if uri not in new and not is_there(ls, document, edit["file"]):
            new.append(uri)
        changes.setdefault(uri, []).append(
            types.TextEdit(range=to_range(positions.lsp_range(edit, lines, ls.encoding)), new_text=edit["text"])
        )
    if not new or not _makes_files(ls):
        return types.WorkspaceEdit(changes=changes)
    steps: list[Any] = [
        types.CreateFile(uri=uri, options=types.CreateFileOptions(ignore_if_exists=True)) for uri in new
    ]
    for uri, edits in changes.items():
        version = document.version if uri == document.uri else None
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        steps.append(types.TextDocumentEdit(text_document=identifier, edits=list(edits)))
    return types.WorkspaceEdit(document_changes=steps)


def project_file(fix: Fix) -> str | None:
    """The configuration that a fix changes: what is not to happen unseen, since it holds for the whole project."""
    return next((edit["file"] for edit in fix["edits"] if not edit["file"].endswith((".py", ".pyi"))), None)


def show(ls: FxLensServer, document: Document, fix: Fix) -> types.Command | None:
    """The command that opens the configuration which a fix has changed, at the change: there one undo takes it back."""
    path = project_file(fix)
    window = ls.client_capabilities.window
    if path is None or not (window and window.show_document and window.show_document.support):
        return None
    line = next(edit["line"] for edit in fix["edits"] if edit["file"] == path)
    uri, _ = file_of(ls, document, path)
    return types.Command(title="Show the change", command=SHOW, arguments=[uri, line - 1])


def _makes_files(ls: FxLensServer) -> bool:
    workspace = ls.client_capabilities.workspace
    edit = workspace.workspace_edit if workspace else None
    operations = (edit.resource_operations if edit else None) or ()
    return bool(edit and edit.document_changes and types.ResourceOperationKind.Create in operations)
