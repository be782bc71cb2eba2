"""A fix as LSP edits: a list for each document, new files created first, and a title that says if it was checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.record import Fix
from fxlens.sources import files, positions
from fxlens.sources.paths import key
from fxlens.views.verdicts import PURPOSES, unchecked

from . import edits
from .places import file_of, is_there, to_range

SHOW = "fxlens.showChange"
"""The server's own command: opens a file at a line, counted from 0."""

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def title(fix: Fix, checking: bool, verify: bool = True) -> str:
    """The fix's title, its capture if that is not torch.fx, why it has not been checked yet, and what it assumes."""
    remarks = [PURPOSES[fix["capture"]]] if fix["capture"] in PURPOSES else []
    why = unchecked(fix)
    if not fix["checked"]:
        why = "being checked" if checking else why if verify else "not checked: fxlens.verify is off"
    if why:
        remarks.append(why)
    return f"{fix['title']} ({', '.join(remarks)})" if remarks else fix["title"]


def is_current(ls: FxLensServer, document: Document, fix: Fix) -> bool:
    """Whether the other files that it edits are unchanged since the trace, so that its line numbers hold."""
    began = document.record_began
    for path in {edit["file"] for edit in fix["edits"] if key(edit["file"]) != key(document.path)}:
        is_open = ls.session.is_open(path)
        if not is_open and not os.path.exists(path):
            if _writes_anew(fix, path):
                continue
            return False
        if began is None:
            continue
        on_disk = not is_open and files.changed_since(path, began.of_files)
        if on_disk or ls.session.edited(path) > began.clock:
            return False
    return True


def workspace_edit(ls: FxLensServer, document: Document, fix: Fix) -> types.WorkspaceEdit:
    """The edits of a fix. If it writes a new file, a client with support for this creates it."""
    changes: dict[str, list[types.TextEdit]] = {}
    new: list[str] = []
    for edit in fix["edits"]:
        uri, lines = file_of(ls, document, edit["file"])
        if uri not in new and not is_there(ls, document, edit["file"]):
            new.append(uri)
        changes.setdefault(uri, []).append(
            types.TextEdit(range=to_range(positions.lsp_range(edit, lines, ls.encoding)), new_text=edit["text"])
        )
    return edits.workspace_edit(ls, changes, new)


def _writes_anew(fix: Fix, path: str) -> bool:
    """Whether a fix creates this file, which only a configuration can be: its edits are those of an empty text."""
    ends = [(edit["end_line"], edit["end_column"]) for edit in fix["edits"] if edit["file"] == path]
    return _configures(path) and set(ends) == {(1, 0)}


def _configures(path: str) -> bool:
    return not path.endswith((".py", ".pyi", ".ipynb"))


def project_file(fix: Fix) -> str | None:
    """The configuration that a fix changes, which the user must see, since it affects the whole project."""
    return next((edit["file"] for edit in fix["edits"] if _configures(edit["file"])), None)


def show(ls: FxLensServer, document: Document, fix: Fix) -> types.Command | None:
    """The command that opens the changed configuration at the change, where one undo reverts it."""
    path = project_file(fix)
    window = ls.client_capabilities.window
    if path is None or not (window and window.show_document and window.show_document.support):
        return None
    line = next(edit["line"] for edit in fix["edits"] if edit["file"] == path)
    uri, _ = file_of(ls, document, path)
    return types.Command(title="Show the change", command=SHOW, arguments=[uri, line - 1])
