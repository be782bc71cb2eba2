"""Requests for applying passes to a model.

``fxlens/passes`` ``{uri, target}`` returns the choices: ``{passes: [{name, label, detail, places}], activations: {old:
[new]}}``.  ``fxlens/pass`` ``{uri, target, passes, old?, new?, out?, onnx?, force?, workDoneToken?}`` applies passes
and answers ``{target, passes, before, after, error, nodes, refused, notes, library, construction, kept}`` or
``{reason}``; with ``out`` the changed model is saved as a module folder, with ``onnx`` it is exported to that file.
Files that FX Lens did not write, or that were edited since, are replaced with ``force`` only.  ``fxlens/savePass``
``{kept, out?, onnx?, force?, workDoneToken?}`` saves an earlier result, which stays in its process for a while:
``{saved: true}``, ``{saved: false}`` if it is gone, or ``{reason}``. ``vscode-extension/src/protocol/passes.ts``
describes all of them.  ``fxlens/insertPass`` ``{uri, target, text}`` has the client insert the answer's
``construction`` below the class, wherever that is by then: ``{uri, line}`` or ``{reason}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types

from fxlens.answers import InsertedAnswer, PassAnswer, PassesAnswer, PassInfo, PassResult, Refusal, SavePassAnswer
from fxlens.passes import source
from fxlens.passes.table import PASSES, Choice, activations, counts, ordered, problem, replacements
from fxlens.record import Record, Target
from fxlens.sources import parsing, positions

from . import edits, params
from .model_jobs import NoAnswer

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/passes")
    async def offered(ls: FxLensServer, given: Any) -> PassesAnswer | Refusal:
        asked = params.of(given)
        name = params.text(asked, "target")
        target = _target(await ls.session.record(params.text(asked, "uri"), now=True), name)
        if target is None:
            return {"reason": f"This file has no model {name}."}
        found = counts(target)
        passes: list[PassInfo] = [
            {"name": each.name, "label": each.label, "detail": each.detail, "places": found[each.name]}
            for each in PASSES.values()
        ]
        return {"passes": passes, "activations": replacements(activations(target))}

    @server.feature("fxlens/pass")
    async def apply(ls: FxLensServer, given: Any) -> PassAnswer | Refusal:
        asked = params.of(given)
        passes = asked.get("passes")
        names = ordered(map(str, passes if isinstance(passes, list) else ()))
        choice = Choice(names, params.text(asked, "old"), params.text(asked, "new"))
        options = {
            "passes": names,
            **{each: params.text(asked, each) for each in ("old", "new", "out", "onnx")},
            "force": asked.get("force") is True,
        }
        try:
            document = ls.model_jobs.document(params.text(asked, "uri"))
            if refusal := problem(choice):
                raise NoAnswer(refusal)
            target, token = params.text(asked, "target"), asked.get("workDoneToken")
            done = await ls.model_jobs.run("apply_passes", document, target or None, options, token, keep=True)
        except NoAnswer as error:
            return {"reason": str(error)}
        result = cast("PassResult", done.result)
        return {**result, "construction": construction(document.record, result["target"], choice), "kept": done.kept}

    @server.feature("fxlens/insertPass")
    async def insert(ls: FxLensServer, given: Any) -> InsertedAnswer | Refusal:
        asked = params.of(given)
        try:
            document = ls.model_jobs.document(params.text(asked, "uri"))
            return await _insert(ls, document, params.text(asked, "target"), params.text(asked, "text"))
        except NoAnswer as error:
            return {"reason": str(error)}

    @server.feature("fxlens/savePass")
    async def save(ls: FxLensServer, given: Any) -> SavePassAnswer | Refusal:
        asked = params.of(given)
        where = {"force": asked.get("force") is True, **{each: params.text(asked, each) for each in ("out", "onnx")}}
        if not (where["out"] or where["onnx"]):
            return {"reason": "Nothing is saved: name a folder (out) or a file (onnx)."}
        try:
            answer = await ls.model_jobs.ask(params.text(asked, "kept"), where, asked.get("workDoneToken"))
        except NoAnswer as error:
            return {"reason": str(error)}
        return {"saved": answer is not None}


async def _insert(ls: FxLensServer, document: Document, name: str, text: str) -> InsertedAnswer:
    """Raises NoAnswer."""
    try:
        edit = below(document.text, name, text)
    except parsing.ERRORS:
        raise NoAnswer(f"Nothing is inserted: the source of {name} has a syntax error.") from None
    except LookupError:
        raise NoAnswer(f"Nothing is inserted: the source has no class {name} any more.") from None
    made = edits.workspace_edit(ls, {document.uri: [edits.line_edit(edit)]})
    done = await ls.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit=made, label=f"Passes on {name}"))
    if not done.applied:
        raise NoAnswer(f"Nothing is inserted: the editor has refused the edit. {done.failure_reason or ''}".strip())
    return {"uri": document.uri, "line": edit.line - 1}


def below(text: str, name: str, function: str) -> positions.LineEdit:
    """The edit that writes a function below a class. Raises LookupError if there is no such class, and what `ast.parse`
    raises."""
    if (end := positions.class_end(text, name)) is None:
        raise LookupError(name)
    lines = positions.lines_of(text)
    follows = end < len(lines) and lines[end].strip() != ""
    before = "\n\n" if end < len(lines) else "\n\n\n"  # its last line has no end
    written = f"{before}{function}" + ("\n\n" if follows else "")
    return positions.LineEdit(end, end, written.replace("\n", positions.line_end(text)))


def construction(record: Record | None, name: str, choice: Choice) -> str | None:
    """A function that makes the changed model."""
    if (target := _target(record, name)) is None:
        return None
    construct = target["construct"]["text"] if target["construct"] else f"{name}()"
    inputs = target["inputs"]["text"] if target["inputs"] else ""
    return source.construction(name, construct, inputs, choice)


def actions(document: Document, wanted: types.Range, known: set[str]) -> list[types.CodeAction]:
    """Actions for the model whose class is under the cursor: the passes that find something in it."""
    if document.record is None or document.record_text != document.text or "fxlens.applyPass" not in known:
        return []
    found = []
    for target in document.record["targets"]:
        if target["status"] != "traced" or target["line"] - 1 != wanted.start.line:
            continue
        for each in PASSES.values():
            if each.in_menu and each.count(target):
                title = f"{each.label.rstrip('…')} of {target['name']}…"
                command = types.Command(
                    title=title, command="fxlens.applyPass", arguments=[document.uri, target["name"], each.name]
                )
                found.append(types.CodeAction(title=title, kind=KIND, command=command))
    return found


def _target(record: Record | None, name: str) -> Target | None:
    return next((each for each in record["targets"] if each["name"] == name), None) if record else None
