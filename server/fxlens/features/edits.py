"""Edits of documents in LSP form: with document versions if the client supports them, and never for a text that has
changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.jobs.fix_all import Fixed
from fxlens.sources import files, positions

from .places import address_of

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_MARKS = "\ufeff\x0c"
"""A byte-order mark, which editors and Python remove from the beginning of a text."""


def workspace_edit(
    ls: FxLensServer, changes: Mapping[str, list[types.TextEdit]], new: Collection[str] = ()
) -> types.WorkspaceEdit:
    """The edits by document. A client with support for it rejects edits of a document that was edited meanwhile, and
    creates ``new`` files."""
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


def of_fixed(ls: FxLensServer, fixed: Fixed) -> dict[str, list[types.TextEdit]] | None:
    """The changes of fixing, by document; None if one of the files was edited or saved meanwhile, since the edits would
    undo that."""
    changes = {}
    for path, text in fixed.texts.items():
        other, before = ls.session.document_at(path), fixed.before[path]
        now = _saved(path) if other is None else other.text
        if now.lstrip(_MARKS) != before.lstrip(_MARKS):
            return None
        address = address_of(path) if other is None else other.uri
        changes[address] = [line_edit(each) for each in positions.line_edits(before, text)]
    return changes


def line_edit(edit: positions.LineEdit) -> types.TextEdit:
    first, last = (types.Position(line=line, character=0) for line in (edit.line, edit.end_line))
    return types.TextEdit(range=types.Range(start=first, end=last), new_text=edit.text)


def _saved(path: str) -> str:
    try:
        return files.read_source(path)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ""
