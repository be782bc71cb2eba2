"""Edits of documents as LSP has them: with the versions that they are made for, where the client takes those."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def workspace_edit(
    ls: FxLensServer, changes: Mapping[str, list[types.TextEdit]], new: Collection[str] = ()
) -> types.WorkspaceEdit:
    """The edits by document. A client that supports it refuses those of a document that was edited meanwhile, and is
    asked to create ``new`` files."""
    workspace = ls.client_capabilities.workspace
    able = workspace.workspace_edit if workspace else None
    makes = types.ResourceOperationKind.Create in ((able.resource_operations if able else None) or ())
    if not able or not able.document_changes or (new and not makes):
        return types.WorkspaceEdit(changes=dict(changes))
    steps: list[Any] = [
        types.CreateFile(uri=uri, options=types.CreateFileOptions(ignore_if_exists=True)) for uri in new
    ]
    for uri, edits in changes.items():
        document = ls.session.documents.get(uri)
        version = document.version if document is not None else None
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        steps.append(types.TextDocumentEdit(text_document=identifier, edits=list(edits)))
    return types.WorkspaceEdit(document_changes=steps)
