"""Requests for applying passes to a model.

``fxlens/passes`` ``{uri, target}`` returns the choices: ``{passes: [{name, label, detail, places}], activations: {old:
[new]}}``.  ``fxlens/pass`` ``{uri, target, passes, old?, new?, out?, onnx?, force?, workDoneToken?}`` applies passes
and answers ``{target, passes, before, after, error, nodes, refused, notes, library, construction, kept}`` or
``{reason}``; with ``out`` the changed model is saved as a module folder, with ``onnx`` it is exported to that file.
Files that FX Lens did not write, or that were edited since, are replaced with ``force`` only.  ``fxlens/savePass``
``{kept, out?, onnx?, force?, workDoneToken?}`` saves an earlier result, which stays in its process for a while:
``{saved: true}``, ``{saved: false}`` if it is gone, or ``{reason}``. ``vscode-extension/src/protocol/passes.ts``
describes all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types

from fxlens.answers import Construction, PassAnswer, PassesAnswer, PassInfo, PassResult, Refusal, SavePassAnswer
from fxlens.passes import source
from fxlens.passes.table import PASSES, Choice, activations, counts, ordered, problem, replacements
from fxlens.record import Record, Target
from fxlens.sources import positions

from . import params
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
        return {**result, "construction": construction(document, result["target"], choice), "kept": done.kept}

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


def construction(document: Document, name: str, choice: Choice) -> Construction | None:
    """The edit that writes a function with the changed model below the class: ``{uri, line, text}``, a line from 0."""
    target = _target(document.record, name)
    if target is None or document.record_text != document.text:
        return None
    construct = target["construct"]["text"] if target["construct"] else f"{name}()"
    inputs = target["inputs"]["text"] if target["inputs"] else ""
    text = source.construction(name, construct, inputs, choice)
    end = positions.class_end(document.text, name)
    lines = document.lines
    after = lines[end] if end < len(lines) else ""
    below = f"\n\n{text}" if after.strip() == "" and end >= len(lines) - 1 else f"\n\n{text}\n\n"
    return {"uri": document.uri, "line": end, "text": below}


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
