"""Fix all (``source.fixAll.fxlens``): the proven fixes, applied one after the other, as one edit. In a notebook it is
for one cell, and ``notebook.source.fixAll.fxlens`` for all.

Computed on request only, by a command or on save, and never for the lightbulb alone: every fix is traced again on the
text after the earlier fixes.
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
    """The one action, or none if no fix is proven. For a cell it has all fixes that change a single cell, and `cells`
    sends those of the requested one: on saving, editors request each cell, and drop actions that change two."""
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
