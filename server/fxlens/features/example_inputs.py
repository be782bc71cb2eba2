"""Keeps what was found out about a model: code actions and a command that write its construction and its example inputs
into a comment above the class, where every reader sees them.

An editor that has a command of its own for this, in which they can be edited first, does not get the action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.record import Target
from fxlens.sources.targets import ASKED, FOUND
from fxlens.views.descriptions import where

from . import edits
from .code_lens import KEEP

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

COMMAND = "fxlens.editInputs"
KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"


def register(server: FxLensServer) -> None:
    @server.command(KEEP)
    async def keep(ls: FxLensServer, uri: str, name: str) -> None:
        document = ls.session.documents.get(uri)
        target = next((each for each in _targets(document) if each["name"] == name), None) if document else None
        if document is None or target is None:
            return
        edit = edits.workspace_edit(ls, {uri: [_comment(document, target["line"] - 1, written(target))]})
        params = types.ApplyWorkspaceEditParams(edit=edit, label=f"Keep the construction of {name}")
        await ls.workspace_apply_edit_async(params)


def actions(ls: FxLensServer, document: Document, wanted: types.Range, known: set[str]) -> list[types.CodeAction]:
    """Writes into a comment how the model on this line is constructed and called, where nobody has written that; and
    asks for another construction, where the client can."""
    found = []
    for target in _targets(document):
        inputs, construct = target["inputs"], target["construct"]
        here = wanted.start.line <= target["line"] - 1 <= wanted.end.line
        if not here or any(each is not None and each["source"] in ASKED for each in (inputs, construct)):
            continue
        comment = _comment(document, target["line"] - 1, written(target))
        place = edits.workspace_edit(ls, {document.uri: [comment]})
        if construct is not None and construct["source"] in FOUND:
            title = f"Keep this construction of {target['name']} ({where(construct)})"
            found.append(types.CodeAction(title=title, kind=KIND, edit=place))
            if COMMAND in known:
                command = types.Command(
                    title="Construct it differently…", command=COMMAND, arguments=[document.uri, target["name"]]
                )
                title = f"Construct {target['name']} differently…"
                found.append(types.CodeAction(title=title, kind=KIND, command=command))
        elif inputs is not None and COMMAND not in known:
            title = f"Write the example inputs of {target['name']} into a comment ({where(inputs)})"
            found.append(types.CodeAction(title=title, kind=KIND, edit=place))
    return found


def written(target: Target) -> str:
    """The construction and the inputs as a comment has them: ``Net(3) <- torch.randn(1, 3)``."""
    made = target["construct"]["text"] if target["construct"] else f"{target['name']}()"
    return f"{made} <- {target['inputs']['text']}" if target["inputs"] else made


def _targets(document: Document) -> Sequence[Target]:
    record = document.record
    return record["targets"] if record is not None and document.record_text == document.text else ()


def _comment(document: Document, line: int, text: str) -> types.TextEdit:
    """Above the class on ``line`` (from 0), and above its decorators."""
    lines = document.lines
    while line > 0 and lines[line - 1].lstrip().startswith("@"):
        line -= 1
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    end = "\r\n" if "\r\n" in document.text else "\n"
    place = types.Position(line=line, character=0)
    return types.TextEdit(range=types.Range(place, place), new_text=f"{indent}# fxlens: {text}{end}")
