"""The graph of a target, drawn: request ``fxlens/graph`` ``{uri, target?, expanded?, parameters?, direction?, now?}``.

The answer is ``{view, version, places}``, or ``{reason}`` where there is nothing to draw;
``vscode-extension/src/protocol`` describes both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fxlens.sources import positions
from fxlens.views.drawing import draw, value_text

from .code_actions import _place

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/graph")
    async def graph(ls: FxLensServer, params: Any) -> dict[str, Any]:
        options = _options(params)
        record = await ls.session.record(options.get("uri", ""), now=options.get("now") is True)
        document = ls.session.documents.get(options.get("uri", ""))
        if document is None:
            return {"reason": "FX Lens has not seen this file yet."}
        if not ls.session.trusted:
            return {"reason": "The workspace is not trusted: its models are not run, so there is no graph."}
        if record is None and not ls.session.settings_for(document.folder).enable:
            return {"reason": "FX Lens is off for this file: the setting fxlens.enable is false."}
        if record is None:
            return {"reason": "This file could not be traced; its problems say why."}
        drawn = [target for target in record["targets"] if target["nodes"]]
        if not drawn:
            return {"reason": _nothing(record)}
        # Unless one is named, the model that the others are parts of.
        largest = max(drawn, key=lambda each: len(each["nodes"]))
        target = next((each for each in drawn if each["name"] == options.get("target")), largest)
        return {
            "view": view(document.path, record, target, options),
            "version": document.record_version,
            "places": places(ls, document, target),
        }


def view(path: str, record: dict[str, Any], target: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What the page draws and tells of each node."""
    parameters = options.get("parameters", True) is not False
    direction = "LR" if options.get("direction") == "LR" else "TB"
    drawing = draw(target, options.get("expanded"), parameters=parameters, direction=direction)
    users: dict[str, list[str]] = {node["name"]: [] for node in target["nodes"]}
    for node in target["nodes"]:
        for name in dict.fromkeys(node["inputs"]):
            users[name].append(node["name"])
    stays = {each["node"]: each["message"] for each in target.get("lowering", ()) if each.get("node")}
    return {
        "file": os.path.basename(path),
        "target": target["name"],
        "targets": [each["name"] for each in record["targets"] if each["nodes"]],
        "dot": drawing.dot,
        "expanded": drawing.expanded,
        "elements": drawing.elements,
        "groups": drawing.groups,
        "nodes": [_node(node, users[node["name"]], stays.get(node["name"])) for node in target["nodes"]],
        "parameters": parameters,
        "direction": direction,
        "partial": _partial(target),
    }


def places(ls: FxLensServer, document: Document, target: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Node name to its ranges: its own expression first, then the calls that lead to it, innermost first."""
    files: dict[str, tuple[str, list[str]]] = {}
    converted: dict[tuple[Any, ...], dict[str, Any]] = {}

    def place(span: dict[str, Any]) -> dict[str, Any]:
        mark = tuple(span.values())
        if mark not in converted:
            if span["file"] not in files:
                files[span["file"]] = _place(ls, document, span["file"])
            uri, lines = files[span["file"]]
            converted[mark] = {"uri": uri, "range": positions.lsp_range(span, lines, ls.encoding)}
        return converted[mark]

    found = {}
    for node in target["nodes"]:
        spans = [node["span"], *reversed(node["call_path"])]
        own = {tuple(span.values()): span for span in spans if span is not None}
        found[node["name"]] = [place(span) for span in own.values()]
    return found


def _node(node: dict[str, Any], users: list[str], lowering: str | None) -> dict[str, Any]:
    return {
        "name": node["name"],
        "op": node["op"],
        "target": node["target"],
        "args": node["args"],
        "inputs": node["inputs"],
        "users": users,
        "module": node["module_path"],
        "type": node["module_type"] if node["op"] == "call_module" else "",
        "value": value_text(node) or node["value"],
        "params": node["params"],
        "flops": node["flops"],
        "lowering": lowering,
    }


def _partial(target: dict[str, Any]) -> str | None:
    if target["status"] == "traced":
        return None
    loud = [each for each in target["findings"] if each["severity"] == "error"]
    if not loud:
        return target["reason"]
    more = f" (and {len(loud) - 1} more)" if len(loud) > 1 else ""
    return f"torch.fx gives no graph of this model{more}; what could be captured is drawn. {loud[0]['message']}"


def _nothing(record: dict[str, Any]) -> str:
    reasons = [f"{each['name']}: {each['reason']}" for each in record["targets"] if each["reason"]]
    if reasons:
        return "There is no graph. " + " ".join(reasons)
    if record["findings"]:
        return f"There is no graph. {record['findings'][0]['message']}"
    return "This file defines no module with a forward."


def _options(params: Any) -> dict[str, Any]:
    if isinstance(params, dict):
        return params
    return {
        name: value
        for name in ("uri", "target", "expanded", "parameters", "direction", "now")
        if (value := getattr(params, name, None)) is not None
    }
