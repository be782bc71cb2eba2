"""Code action that writes inferred example inputs into a comment above the class, where every reader sees them.

An editor that has a command of its own for this, in which they can be edited first, does not get the action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from .code_lens import origin

if TYPE_CHECKING:
    from fxlens.workspace.document import Document

COMMAND = "fxlens.editInputs"
KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"
_WRITTEN = ("comment", "config")


def actions(document: Document, wanted: types.Range, known: set[str]) -> list[types.CodeAction]:
    """Writes into a comment how the model on this line is constructed and called, where that was inferred or taken from
    a call."""
    record = document.record
    if record is None or document.record_text != document.text or COMMAND in known:
        return []
    found = []
    for target in record["targets"]:
        inputs, construct = target["inputs"], target["construct"]
        here = wanted.start.line <= target["line"] - 1 <= wanted.end.line
        if not here or inputs is None or inputs["source"] in _WRITTEN:
            continue
        text = f"{construct['text'] if construct else target['name'] + '()'} <- {inputs['text']}"
        if construct is None or construct["source"] not in _WRITTEN:
            title = f"Write the example inputs of {target['name']} into a comment ({origin(inputs)})"
            edit = types.WorkspaceEdit(changes={document.uri: [_comment(document, target["line"] - 1, text)]})
            found.append(types.CodeAction(title=title, kind=KIND, edit=edit))
    return found


def _comment(document: Document, line: int, text: str) -> types.TextEdit:
    """Above the class on ``line`` (from 0), and above its decorators."""
    lines = document.lines
    while line > 0 and lines[line - 1].lstrip().startswith("@"):
        line -= 1
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    end = "\r\n" if "\r\n" in document.text else "\n"
    place = types.Position(line=line, character=0)
    return types.TextEdit(range=types.Range(place, place), new_text=f"{indent}# fxlens: {text}{end}")
