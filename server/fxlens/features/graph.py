"""The graph of a target, drawn: request ``fxlens/graph`` ``{uri, target?, expanded?, parameters?, direction?, now?}``.

The answer is ``{view, trace, version, places}``, or ``{reason}`` if there is nothing to draw;
``vscode-extension/src/protocol`` describes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fxlens.answers import GraphAnswer, Refusal
from fxlens.record import Record, Target
from fxlens.views.graph_view import graph_view
from fxlens.views.verdicts import closest

from . import params as parameters
from .large import Encoded, encoded
from .places import places

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/graph")
    async def graph(ls: FxLensServer, params: Any) -> Encoded | Refusal:
        options = parameters.of(params)
        uri = parameters.text(options, "uri")
        record = await ls.session.record(uri, now=options.get("now") is True)
        document = ls.session.documents.get(uri)
        if document is None:
            return {"reason": "FX Lens has not seen this file yet."}
        if (reason := ls.session.why_not_run(document)) is not None:
            return {"reason": reason}
        if record is None and not ls.session.settings_for(document.folder).enable:
            return {"reason": "FX Lens is off for this file: the setting fxlens.enable is false."}
        if record is None:
            return {"reason": "This file could not be traced; its problems say why."}
        drawn = [target for target in record["targets"] if target["nodes"]]
        if not drawn:
            return {"reason": _nothing(record)}
        # Unless a model is named: the one that contains the others.
        largest = max(drawn, key=lambda each: len(each["nodes"]))
        target = closest(record, parameters.text(options, "target")) or largest
        target = target if target["nodes"] else largest
        trace, version = document.trace, document.record_version
        return await encoded(partial(_answer, ls, document, record, target, options, trace, version))


def _answer(
    ls: FxLensServer,
    document: Document,
    record: Record,
    target: Target,
    options: Mapping[str, object],
    trace: float | None,
    version: int | None,
) -> GraphAnswer:
    view = graph_view(
        document.path,
        record,
        target,
        _expanded(options),
        parameters=options.get("parameters") is not False,
        direction="LR" if options.get("direction") == "LR" else "TB",
    )
    described = {node["name"] for node in view["nodes"]}
    found = places(ls, document, [node for node in target["nodes"] if node["name"] in described])
    return {"view": view, "trace": trace, "version": version, "places": found}


def _expanded(options: Mapping[str, object]) -> list[str] | None:
    """The modules that the user has expanded; None if the server chooses."""
    given = options.get("expanded")
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else None


def _nothing(record: Record) -> str:
    reasons = [f"{each['name']}: {each['reason']}" for each in record["targets"] if each["reason"]]
    if reasons:
        return "There is no graph. " + " ".join(reasons)
    if record["findings"]:
        return f"There is no graph. {record['findings'][0]['message']}"
    return "This file defines no nn.Module with a forward."
