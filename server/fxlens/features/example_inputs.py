"""Code actions and commands that write a model's construction and example inputs into a comment above the class, where
every reader sees them. A class has one such comment: an existing one is replaced.

``fxlens/inputs`` ``{uri, target}`` returns the initial text as ``{text, select}``, ``select`` being the part to be
changed; ``fxlens/tryInputs`` ``{uri, target, text}`` returns the result of a text as ``{works, verdict}``; the command
``fxlens.writeInputs`` writes it. An editor with the command ``fxlens.editInputs`` does not get the action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens import record
from fxlens.answers import InputsAnswer, InputsVerdict, Refusal
from fxlens.not_judged import ENDED
from fxlens.record import Edit, Target
from fxlens.sources import positions, targets
from fxlens.sources.targets import ASKED, FOUND
from fxlens.views.descriptions import where

from . import edits, params
from .code_lens import KEEP
from .places import to_range

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

COMMAND = "fxlens.editInputs"
WRITE = "fxlens.writeInputs"
_EXAMPLE = "torch.randn(1, 3, 224, 224)"
KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"
_MISFITS = {"FX302", "FX303", *ENDED}


def register(server: FxLensServer) -> None:
    @server.command(KEEP)
    async def keep(ls: Any, uri: str, name: str) -> None:
        await _write(ls, uri, name, None)

    @server.command(WRITE)
    async def write(ls: Any, uri: str, name: str, text: str) -> None:
        await _write(ls, uri, name, text)

    @server.feature("fxlens/inputs")
    async def inputs(ls: FxLensServer, given: Any) -> InputsAnswer | Refusal:
        asked = params.of(given)
        uri, name = params.text(asked, "uri"), params.text(asked, "target")
        await ls.session.record(uri)
        document, target = _found(ls, uri, name)
        if document is None or target is None:
            return {"reason": f"This file has no model {name}."}
        return proposal(document, target)

    @server.feature("fxlens/tryInputs")
    async def attempt(ls: FxLensServer, given: Any) -> InputsVerdict | Refusal:
        asked = params.of(given)
        name, text = params.text(asked, "target"), params.text(asked, "text")
        document, target = _found(ls, params.text(asked, "uri"), name)
        if document is None or target is None:
            return {"reason": f"This file has no model {name}."}
        edited = positions.edited(document.text, comment_edits(document, target, text))
        tried = await ls.session.trial(document, edited)
        if tried is None:
            return {"reason": ls.session.why_not_run(document) or "The file was closed."}
        return verdict(next((each for each in tried["targets"] if each["name"] == name), None))


def proposal(document: Document, target: Target) -> InputsAnswer:
    """The existing comment; otherwise what is known of the model, with the unknown part selected."""
    present = targets.comments_on(document.text, target["name"])
    if present:
        text = present[0].body
    elif target["construct"] is not None:
        text = written(target) if target["inputs"] else f"{written(target)} <- {_EXAMPLE}"
    else:
        tried = next((each["data"].get("construct") for each in target["findings"] if each["code"] == "FX302"), None)
        text = f"{tried or target['name'] + '()'} <- {_EXAMPLE}"
    made, arrow, given = text.partition("<-")
    if arrow and target["construct"] is not None:
        start = len(text) - len(given.lstrip())
        return {"text": text, "select": [start, len(text)]}
    opened = made.find("(") + 1
    return {"text": text, "select": [opened, made.rindex(")")] if opened and ")" in made else [0, len(text)]}


def verdict(target: Target | None) -> InputsVerdict:
    """Whether a model can be constructed and called by a comment, as a sentence."""
    if target is None:
        return {"works": False, "verdict": "The class no longer exists."}
    wrong = next((each for each in target["findings"] if each["code"] in _MISFITS), None)
    if wrong is not None:
        return {"works": False, "verdict": wrong["message"]}
    if target["status"] == "traced":
        return {"works": True, "verdict": f"Works: the model is traced, {len(target['nodes'])} nodes."}
    problems = sum(each["severity"] in ("error", "warning") for each in target["findings"])
    count = f"{problems} {'problem' if problems == 1 else 'problems'}"
    return {"works": True, "verdict": f"Works: the model is constructed and called; the trace has {count}."}


def actions(ls: FxLensServer, document: Document, wanted: types.Range, known: set[str]) -> list[types.CodeAction]:
    """Writes into a comment how the model on this line is constructed and called, if that is not written yet; and asks
    for another construction, if the client supports it."""
    found = []
    for target in _targets(document):
        inputs, construct = target["inputs"], target["construct"]
        here = wanted.start.line <= target["line"] - 1 <= wanted.end.line
        if not here or any(each is not None and each["source"] in ASKED for each in (inputs, construct)):
            continue
        place = edits.workspace_edit(ls, {document.uri: _as_lsp(ls, document, target, written(target))})
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
    """The construction and the inputs in the form of a comment: ``Net(3) <- torch.randn(1, 3)``."""
    made = target["construct"]["text"] if target["construct"] else f"{target['name']}()"
    return f"{made} <- {target['inputs']['text']}" if target["inputs"] else made


def comment_edits(document: Document, target: Target, text: str) -> list[Edit]:
    """The one comment of a class: replacing existing ones, otherwise above the class and its decorators. The text is
    kept to one line, since a second one would be code."""
    text = " ".join(text.splitlines())
    present = targets.comments_on(document.text, target["name"])
    if not present:
        return [_above(document, target["line"] - 1, text)]
    first, *others = present
    return [_replaced(document, first, f"# fxlens: {text}"), *(_without(document, each) for each in others)]


def _replaced(document: Document, comment: targets.Comment, text: str) -> Edit:
    return _edit(document, comment.line, comment.column, comment.line, comment.end_column, text)


def _without(document: Document, comment: targets.Comment) -> Edit:
    """Remove a second comment, with its line if that has nothing else."""
    if document.lines[comment.line - 1].encode("utf-8", "surrogatepass")[: comment.column].strip():
        return _replaced(document, comment, "")
    return _edit(document, comment.line, 0, comment.line + 1, 0, "")


def _above(document: Document, line: int, text: str) -> Edit:
    """Above the class on ``line`` (from 0), and above its decorators."""
    lines = document.lines
    while line > 0 and lines[line - 1].lstrip().startswith("@"):
        line -= 1
    indent = lines[line][: len(lines[line]) - len(lines[line].lstrip())]
    return _edit(document, line + 1, 0, line + 1, 0, f"{indent}# fxlens: {text}{positions.line_end(document.text)}")


def _edit(document: Document, line: int, column: int, end_line: int, end_column: int, text: str) -> Edit:
    return {**record.span(document.path, line, column, end_line, end_column), "text": text}


def _as_lsp(ls: FxLensServer, document: Document, target: Target, text: str) -> list[types.TextEdit]:
    """The edits of a comment in the client's position encoding."""
    return [
        types.TextEdit(range=to_range(positions.lsp_range(edit, document.lines, ls.encoding)), new_text=edit["text"])
        for edit in comment_edits(document, target, text)
    ]


async def _write(ls: FxLensServer, uri: str, name: str, text: str | None) -> None:
    """The comment of a class; without ``text`` as its model is constructed and called now."""
    await ls.session.record(uri)
    document, target = _found(ls, uri, name)
    if document is None or target is None:
        said = f"Nothing was written: the text has no trace of {name}, perhaps since it was edited."
        ls.window_show_message(types.ShowMessageParams(type=types.MessageType.Warning, message=said))
        return
    edit = edits.workspace_edit(ls, {uri: _as_lsp(ls, document, target, written(target) if text is None else text)})
    await ls.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit=edit, label=f"Example inputs of {name}"))


def _found(ls: FxLensServer, uri: str, name: str) -> tuple[Document | None, Target | None]:
    document = ls.session.documents.get(uri)
    return document, next((each for each in _targets(document) if each["name"] == name), None) if document else None


def _targets(document: Document) -> Sequence[Target]:
    record = document.record
    return record["targets"] if record is not None and document.record_text == document.text else ()
