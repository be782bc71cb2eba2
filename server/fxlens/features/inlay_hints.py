"""Shapes where one reads: the value of each traced line stands at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens import text as positions
from fxlens.lines import LineValue, line_values

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.session import Document

LENGTH = 60
"""Characters of a hint; a longer one is cut."""


def register(server: FxLensServer) -> None:
    server.on_traced.append(_refresh)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def inlay_hints(ls: FxLensServer, params: types.InlayHintParams) -> list[types.InlayHint]:
        document = ls.session.documents.get(params.text_document.uri)
        if document is None or document.record is None or not ls.session.settings_for(document.folder).shapes:
            return []
        # Between an edit and its trace, hints stay at the lines that were not touched.
        old = positions.lines_of(document.record_text)
        lines = document.lines
        moved = positions.moved_lines(old, lines)
        hints = []
        for value in line_values(document.record, document.path):
            line = moved.get(value.line)
            if line is not None and params.range.start.line <= line - 1 <= params.range.end.line:
                hints.append(_hint(value, line - 1, lines[line - 1].rstrip(), ls.encoding))
        return hints


def _hint(value: LineValue, line: int, content: str, encoding: str) -> types.InlayHint:
    return types.InlayHint(
        position=types.Position(line=line, character=positions.character(content, 1 << 30, encoding)),
        label=value.text(LENGTH),
        padding_left=True,
        tooltip="\n".join(dict.fromkeys(value.values)) if len(value.values) > 1 else None,
    )


def _refresh(ls: FxLensServer, document: Document) -> None:
    workspace = ls.client_capabilities.workspace
    if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
        ls.workspace_inlay_hint_refresh(None, lambda _: None)
