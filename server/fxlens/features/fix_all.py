"""Fix all (``source.fixAll.fxlens``): the fixes that hold, applied one after the other, as one edit.  In a notebook
that is what becomes of one cell, and ``notebook.source.fixAll.fxlens`` is all of it.

Computed on request only, by a command or on save, and never for the lightbulb alone: every fix is traced again on the
text that the fixes before it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from . import edits

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

KIND = f"{types.CodeActionKind.SourceFixAll.value}.fxlens"
NOTEBOOK_KIND = f"notebook.{KIND}"


def asked(params: types.CodeActionParams) -> str | None:
    """The kind that the client wants: ``source``, ``source.fixAll`` and ours are for a file or a cell, the same below
    ``notebook`` for a notebook."""
    wanted = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()]
    return next((ours for ours in (KIND, NOTEBOOK_KIND) for kind in wanted if f"{ours}.".startswith(f"{kind}.")), None)


async def actions(ls: FxLensServer, uri: str, kind: str) -> list[types.CodeAction]:
    """The one action, or none where no fix holds.  Of a cell it has the fixes of all cells that each change one alone,
    and `cells` sends those of the one asked about: on saving, editors ask for each, and drop what changes two."""
    notebook = ls.cells.get(uri)
    if notebook is None and kind == NOTEBOOK_KIND:
        return []
    fixed = await ls.session.fix_all(uri, notebook.made.starts if notebook and kind == KIND else ())
    if fixed is None or not fixed.texts:
        return []
    changes = edits.of_fixed(ls, fixed)
    if changes is None:
        return []
    title = "Apply all checked fixes" + ("" if notebook and kind == KIND else f": {len(fixed.applied)}")
    return [types.CodeAction(title=title, kind=kind, edit=edits.workspace_edit(ls, changes))]
