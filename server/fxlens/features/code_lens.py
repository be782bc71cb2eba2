"""A line above each model: the result of its trace, and its views."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from lsprotocol import types

from fxlens.record import Target
from fxlens.sources import parsing, positions, targets
from fxlens.sources.files import READ_AT_ONCE
from fxlens.sources.roles import WATCHED
from fxlens.sources.targets import ASKED
from fxlens.views import modules, verdicts
from fxlens.views.coverage import is_assumed
from fxlens.views.descriptions import where
from fxlens.views.source_nodes import inputs

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_LENGTH = 60
_PART = ".get_submodule("
OPEN_VIEW = "fxlens.openView"
"""The server's own command, see ``navigation``: for clients that show no documents of a server."""
WAYS = (
    ("Graph", "fxlens.showGraph", None), ("Code", "fxlens.showCode", "code"), ("Table", "fxlens.showTable", "table"),
)  # fmt: skip
"""Views of a model: the client's command, and the view that the server can write if the client has none."""
KEEP = "fxlens.keepConstruction"
"""The server's own command: writes the comment above the class."""
WATCH = "fxlens.watch"
_BEING_JUDGED = types.Command(title="Being judged…", command="")
DEEPER = (("Lower", "fxlens.lower"), ("Benchmark", "fxlens.bench"))


def register(server: FxLensServer) -> None:
    server.on_traced.append(_refresh)
    server.on_judged.append(_refresh)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def code_lens(ls: FxLensServer, params: types.CodeLensParams) -> list[types.CodeLens]:
        document = ls.session.documents.get(params.text_document.uri)
        if document is None:
            return []
        known, shown = client_commands(ls), _judged(document)
        above = [
            (line, command)
            for target, line in shown.values()
            for command in (*lenses(target, document.uri, known), *_as_part(ls, document, target, known))
        ]
        if ls.session.is_judging(document):
            above += [(line, _BEING_JUDGED) for name, line in _models(document) if name not in shown]
        return [_above(line, command) for line, command in above]


def _judged(document: Document) -> dict[str, tuple[Target, int]]:
    """By name, each class's record with its current line: from the running trace if it has finished the class; its
    graph stays the old one until the new one arrives."""
    found: dict[str, tuple[Target, int]] = {}
    last = (document.record, document.record_text)
    for record, text in (last, document.judged or (None, "")):
        moved = positions.moved_lines(positions.lines_of(text), document.lines) if record is not None else {}
        for target in record["targets"] if record is not None else ():
            line = moved.get(target["line"])
            if line is None:
                continue
            before = found.get(target["name"])
            if before is not None and target["status"] == before[0]["status"] and not target["nodes"]:
                target = {**target, "nodes": before[0]["nodes"]}
            found[target["name"]] = target, line
    return found


def _models(document: Document) -> list[tuple[str, int]]:
    """The classes that look like models, with their lines; none in a text that is slow to parse."""
    if len(document.text) > READ_AT_ONCE:
        return []
    try:
        tree = ast.parse(document.text)
    except parsing.ERRORS:
        return []
    return [(name, node.lineno) for name, node in targets.classes(tree) if targets.looks_like_model(node)]


def _above(line: int, command: types.Command) -> types.CodeLens:
    at = types.Position(line=line - 1, character=0)
    return types.CodeLens(range=types.Range(start=at, end=at), command=command)


def lenses(target: Target, uri: str, known: set[str]) -> list[types.Command]:
    """The commands above a class; those that the client lacks are left out, or only show their text."""

    def command(title: str, name: str) -> types.Command:
        return types.Command(title=title, command=name if name in known else "", arguments=[uri, target["name"]])

    count = obstacles(target)
    if count and target["limit"] == "hint":
        watch = " · Watch" if WATCH in known else ""
        found = [command(f"{count} {'obstacle' if count == 1 else 'obstacles'} to capture{watch}", WATCH)]
    else:
        found = [command(summary(target), "fxlens.showProblems")]
    if target["why"] == WATCHED:
        found.append(command("Stop watching", WATCH))
    if target["nodes"]:
        for title, name, view in WAYS:
            if name in known:
                found.append(command(title, name))
            elif view:
                found.append(types.Command(title=title, command=OPEN_VIEW, arguments=[uri, target["name"], view]))
    for name in verdicts.capture_names(target):
        title = "Exported program" if "export" in name else "Compiled graphs"
        if "fxlens.showGraph" in known:
            arguments = [uri, name]
            found.append(types.Command(title=title, command="fxlens.showGraph", arguments=arguments))
        else:
            found.append(types.Command(title=title, command=OPEN_VIEW, arguments=[uri, name, "code"]))
    if target["status"] == "traced":
        found += [command(title, name) for title, name in DEEPER if name in known]
    given = ", ".join(inputs(target))
    if target["inputs"] and given:
        found.append(command(f"{shortened(given)} · {where(target['inputs'])}", "fxlens.editInputs"))
    elif "fxlens.editInputs" in known and _wants_inputs(target):
        found.append(command("Set example inputs", "fxlens.editInputs"))
    if target["construct"] and target["construct"]["source"] not in (*ASKED, "default"):
        made = shortened(target["construct"]["text"])
        found.append(command(f"{made} · {where(target['construct'])}", "fxlens.editInputs"))
    if is_assumed(target):
        found.append(types.Command(title="Keep this construction", command=KEEP, arguments=[uri, target["name"]]))
    return found


def _as_part(ls: FxLensServer, document: Document, target: Target, known: set[str]) -> list[types.Command]:
    """The largest of the traced models, of this file and of the others that are open, that holds the class."""
    own = [(document, document.record)] if document.record is not None else []
    found = [
        (reader.uri, held)
        for reader, record in [*own, *ls.session.readers(document)]
        if (held := modules.instances(record, document.path, target["name"], itself=False)) is not None
    ]
    if not found:
        return []
    uri, held = max(found, key=lambda each: len(each[1].target["nodes"]))
    times = f" ×{len(held.paths)}" if len(held.paths) > 1 else ""
    title = f"Traced in {held.target['name']}{times}"
    if "fxlens.showGraph" in known:
        return [types.Command(title=title, command="fxlens.showGraph", arguments=[uri, held.target["name"]])]
    return [types.Command(title=title, command=OPEN_VIEW, arguments=[uri, held.target["name"], "graph"])]


def shortened(text: str) -> str:
    """A text cut to the length of a line; for a part of a model, with the name of the part."""
    if len(text) <= _LENGTH:
        return text
    head, dot, part = text.rpartition(_PART)
    if dot and len(part) < _LENGTH // 2:
        return f"{head[: _LENGTH - len(part) - len(dot) - 1]}…{dot}{part}"
    return f"{text[: _LENGTH - 1]}…"


def _wants_inputs(target: Target) -> bool:
    """Whether the example inputs are unknown: the model was not traced, or traced without them."""
    return target["status"] == "skipped" or any(node["op"] == "placeholder" for node in target["nodes"])


def summary(target: Target) -> str:
    """``✓ 176 nodes``, ``3 problems``, or why there is no trace; with other captures, what each of them does."""
    if asked := verdicts.summary(target):
        return asked
    problems = obstacles(target)
    if problems and target["status"] != "skipped":
        return f"{problems} {'problem' if problems == 1 else 'problems'}"
    if target["status"] == "traced" and not target["nodes"]:
        return "✓ traced"
    if target["status"] == "traced":
        return f"✓ {len(target['nodes'])} {'node' if len(target['nodes']) == 1 else 'nodes'}"
    return target["reason"] or target["status"]


def obstacles(target: Target) -> int:
    """How many findings would be problems if the class were meant to be captured."""
    return sum(each["severity"] in ("error", "warning") for each in target["findings"])


def client_commands(ls: FxLensServer) -> set[str]:
    """Commands that the client runs itself, as declared in ``capabilities.experimental.commands``."""
    experimental = ls.client_capabilities.experimental
    names = experimental.get("commands") if isinstance(experimental, dict) else getattr(experimental, "commands", None)
    return {name for name in names or () if isinstance(name, str)}


def _refresh(ls: FxLensServer, document: Document) -> None:
    workspace = ls.client_capabilities.workspace
    if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
        ls.workspace_code_lens_refresh(None, lambda _: None)
