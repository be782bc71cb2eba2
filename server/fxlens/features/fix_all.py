"""Fix all in file (``source.fixAll.fxlens``): the fixes that hold, applied one after the other, as one edit.

Computed on request only, by a command or on save, and never for the lightbulb alone: every fix is traced again on the
text that the fixes before it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types
from pygls import uris

from fxlens.sources import files, positions

from . import edits

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

KIND = f"{types.CodeActionKind.SourceFixAll.value}.fxlens"


def is_asked(params: types.CodeActionParams) -> bool:
    """Whether the client wants source actions: ``source``, ``source.fixAll`` or ours."""
    wanted = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()]
    return any(kind == KIND or KIND.startswith(f"{kind}.") for kind in wanted)


async def actions(ls: FxLensServer, uri: str) -> list[types.CodeAction]:
    """The one action, or none where no fix holds."""
    fixed = await ls.session.fix_all(uri)
    if fixed is None or not fixed.texts:
        return []
    changes = {}
    for path, text in fixed.texts.items():
        other = ls.session.document_at(path)
        before = other.text if other else (files.read_text(path, "replace") or "")
        changes[other.uri if other else uris.from_fs_path(path) or ""] = [
            types.TextEdit(
                range=types.Range(
                    start=types.Position(line=edit.line, character=0),
                    end=types.Position(line=edit.end_line, character=0),
                ),
                new_text=edit.text,
            )
            for edit in positions.line_edits(before, text)
        ]
    title = f"Apply all checked fixes: {len(fixed.applied)}"
    return [types.CodeAction(title=title, kind=KIND, edit=edits.workspace_edit(ls, changes))]
