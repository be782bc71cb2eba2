"""Quick fixes: the edits that the record proposes for the findings under the cursor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.overlays import findings
from fxlens.record import Finding, Fix, Record
from fxlens.sources import positions

from . import captures, example_inputs, fix_all, fix_edits, passes
from .code_lens import client_commands
from .diagnostics import diagnostic, here
from .places import to_range

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

CHOOSE = "fxlens.chooseInterpreter"
_VERIFY_SECONDS = 3.0
_LAST_LINE = (1 << 31) - 2


def register(server: FxLensServer) -> None:
    kinds: list[types.CodeActionKind | str] = [
        types.CodeActionKind.QuickFix,
        fix_all.KIND,
        fix_all.NOTEBOOK_KIND,
        passes.KIND,
    ]
    options = types.CodeActionOptions(code_action_kinds=kinds)

    @server.command(fix_edits.SHOW)
    def show(ls: Any, uri: str, line: int) -> None:
        line = min(max(line, 0), _LAST_LINE)
        at = types.Position(line=line, character=0)
        place = types.Range(start=at, end=types.Position(line=line + 1, character=0))
        ls.window_show_document(types.ShowDocumentParams(uri=uri, take_focus=True, selection=place), lambda _: None)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    async def code_actions(ls: FxLensServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = ls.session.documents.get(params.text_document.uri)
        if document is None:
            return []
        if kind := fix_all.asked(params):
            return await fix_all.actions(ls, document.uri, kind)
        if not ls.tells_cursor:  # others may ask about where the mouse rests
            ls.session.moved_to(document.uri, params.range.start.line)
        only = params.context.only
        changes = []
        if _wanted(only, "refactor"):
            known = client_commands(ls)
            changes += example_inputs.actions(ls, document, params.range, known)
            changes += passes.actions(document, params.range, known)
            changes += captures.actions(document, params.range)
        if not _wanted(only, "quickfix"):
            return changes
        # Findings are shown before the record is complete, and fixes are checked later. Wait briefly for checked ones,
        # then return what is known.
        await _settle(document.task)
        await _settle(document.verifying)
        record = document.record if document.record_text == document.text else None
        if record is None and document.shown_text == document.text:
            record = document.shown_record
        if record is None:
            return changes
        fixes = [
            (finding, fix)
            for finding in findings(record)
            if _touches(ls, document, finding, params.range)
            for fix in finding["fixes"]
            if fix_edits.is_current(ls, document, fix)
        ]
        # Changes of the project always come last.
        changes += _interpreters(ls, document, record, params.range)
        own = [_action(ls, document, *each) for each in fixes if not fix_edits.project_file(each[1])]
        of_project = [_action(ls, document, *each) for each in fixes if fix_edits.project_file(each[1])]
        return own + changes + of_project


async def _settle(task: asyncio.Task | None) -> None:
    if task is not None and not task.done():
        await asyncio.wait({task}, timeout=_VERIFY_SECONDS)


def _wanted(only: Any, kind: str) -> bool:
    return not only or any(str(getattr(each, "value", each)).split(".")[0] in (kind, "") for each in only)


def _touches(ls: FxLensServer, document: Document, finding: Finding, wanted: types.Range) -> bool:
    own = to_range(positions.lsp_range(here(document, finding), document.lines, ls.encoding))
    before = (own.end.line, own.end.character) < (wanted.start.line, wanted.start.character)
    after = (own.start.line, own.start.character) > (wanted.end.line, wanted.end.character)
    return not before and not after


def _interpreters(ls: FxLensServer, document: Document, record: Record, wanted: types.Range) -> list[types.CodeAction]:
    """The action to choose another interpreter, if the current one cannot run models."""
    if CHOOSE not in client_commands(ls):
        return []
    command = types.Command(title="Choose Interpreter…", command=CHOOSE)
    return [
        types.CodeAction(
            title=command.title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic(ls, document, finding)],
            command=command,
        )
        for finding in record["findings"]
        if finding["code"] == "FX309" and _touches(ls, document, finding, wanted)
    ]


def _action(ls: FxLensServer, document: Document, finding: Finding, fix: Fix) -> types.CodeAction:
    verify = ls.session.settings_for(document.folder).verify
    return types.CodeAction(
        title=fix_edits.title(fix, verify and document.checks(fix["capture"]), verify),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(ls, document, finding)],
        is_preferred=True if fix["preferred"] and fix["checked"] and not fix_edits.project_file(fix) else None,
        edit=fix_edits.workspace_edit(ls, document, fix),
        command=fix_edits.show(ls, document, fix),
    )
