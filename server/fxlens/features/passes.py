"""What passes make of a model.

Request ``fxlens/passes`` ``{uri, target}``: what can be chosen, ``{passes: [{name, label, detail, places}],
activations: {old: [new]}}``.  Request ``fxlens/pass`` ``{uri, target, passes, old?, new?, out?, onnx?}``: the answer is
``{target, passes, before, after, error, nodes, refused, notes, library, construction}``, or ``{reason}``;
``vscode-extension/src/protocol/code.ts`` describes both.  With ``out`` the changed model is saved as a module folder,
with ``onnx`` it is exported to that file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens import passes
from fxlens.host import model_job
from fxlens.sources import positions

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_FIELDS = ("old", "new", "out", "onnx")


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/passes")
    async def offered(ls: FxLensServer, params: Any) -> dict[str, Any]:
        uri, name = (str(getattr(params, each, None) or "") for each in ("uri", "target"))
        record = await ls.session.record(uri, now=True)
        target = _target(record, name)
        if target is None:
            return {"reason": f"This file has no model {name}."}
        found = passes.places(target)
        return {
            "passes": [
                {"name": key, "label": each.label, "detail": each.detail, "places": found[key]}
                for key, each in passes.PASSES.items()
            ],
            "activations": {
                old: [new for other, new in passes.ACTIVATIONS.items() if other != old]
                for old in passes.activations(target)
            },
        }

    @server.feature("fxlens/pass")
    async def preview(ls: FxLensServer, params: Any) -> dict[str, Any]:
        uri, target = (str(getattr(params, each, None) or "") for each in ("uri", "target"))
        chosen = [str(each) for each in getattr(params, "passes", None) or ()]
        document = ls.session.documents.get(uri)
        if document is None:
            return {"reason": "FX Lens has not seen this file yet."}
        if not ls.session.trusted:
            return {"reason": "The workspace is not trusted: its models are not run."}
        given = {each: str(getattr(params, each, None) or "") for each in _FIELDS}
        problem = passes.problem(chosen, given["old"], given["new"])
        if problem:
            return {"reason": f"{problem[0].upper()}{problem[1:]}."}
        launch, request = ls.session.whole(document)
        options = {"passes": chosen, **{each: value for each, value in given.items() if value}}
        try:
            done = await model_job.run(launch, "pass", request, target or None, options, lambda text, fraction: None)
        except model_job.Failed as error:
            return {"reason": str(error)}
        swap = (given["old"], given["new"]) if given["old"] else None
        return {**done, "construction": construction(ls, document, done["target"], done["passes"], swap)}


def construction(
    ls: FxLensServer, document: Document, name: str, names: list[str], swap: tuple[str, str] | None
) -> dict[str, Any] | None:
    """The edit that writes a function with the changed model below the class: ``{line, text}``, a line from 0."""
    target = _target(document.record, name)
    if target is None or document.record_text != document.text:
        return None
    construct = target["construct"]["text"] if target["construct"] else f"{name}()"
    inputs = target["inputs"]["text"] if target["inputs"] else ""
    text = passes.construction(name, construct, inputs, names, swap)
    end = positions.class_end(document.text, name)
    lines = document.lines
    after = lines[end] if end < len(lines) else ""
    return {"line": end, "text": f"\n\n{text}" if after.strip() == "" and end >= len(lines) - 1 else f"\n\n{text}\n\n"}


def actions(ls: FxLensServer, document: Document, wanted: types.Range, known: set[str]) -> list[types.CodeAction]:
    """Ways to change the model whose class is under the cursor: those passes that find something in it."""
    if document.record is None or document.record_text != document.text or "fxlens.applyPass" not in known:
        return []
    found = []
    for target in document.record["targets"]:
        if target["status"] != "traced" or not target["line"] - 1 <= wanted.start.line <= target["line"] - 1:
            continue
        for name, count in passes.places(target).items():
            if count and name != "common":
                title = f"{passes.PASSES[name].label.rstrip('…')} of {target['name']}…"
                command = types.Command(
                    title=title, command="fxlens.applyPass", arguments=[document.uri, target["name"], name]
                )
                found.append(types.CodeAction(title=title, kind=KIND, command=command))
    return found


KIND = f"{types.CodeActionKind.RefactorRewrite.value}.fxlens"


def _target(record: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    return next((each for each in (record or {}).get("targets", ()) if each["name"] == name), None)
