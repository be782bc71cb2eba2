"""Requests about one model: ``fxlens/lower``, ``fxlens/bench`` and ``fxlens/estimate`` ``{uri, target?, options?,
workDoneToken?}``.

The answer is ``{result, places, version}`` or ``{reason}``; ``vscode-extension/src/protocol/lowering.ts`` describes
both.  ``$/progress`` reports how far it is; cancelling the request or its progress ends it.  ``fxlens/engines``
``{uri}`` answers with the engines that the file's models can be lowered to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fxlens.host.outcome import Failed
from fxlens.ipc.protocol import Json

from . import params
from .inlay_hints import refresh
from .layer_times import Times, timed
from .model_jobs import NoAnswer
from .places import places

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/lower")
    async def lower(ls: FxLensServer, given: Any) -> Json:
        return await _run(ls, "lower", params.of(given))

    @server.feature("fxlens/bench")
    async def bench(ls: FxLensServer, given: Any) -> Json:
        return await _run(ls, "bench", params.of(given))

    @server.feature("fxlens/engines")
    async def engines(ls: FxLensServer, given: Any) -> Json:
        try:
            document = ls.model_jobs.document(params.text(params.of(given), "uri"))
            return {"engines": await ls.session.engines(document)}
        except (NoAnswer, Failed) as error:
            return {"reason": str(error)}

    @server.feature("fxlens/estimate")
    async def estimate(ls: FxLensServer, given: Any) -> Json:
        return await _run(ls, "estimate", params.of(given))


async def _run(ls: FxLensServer, kind: str, given: Json) -> Json:
    target, options, token = given.get("target"), given.get("options") or {}, given.get("workDoneToken")
    try:
        document = ls.model_jobs.document(params.text(given, "uri"))
        done = await ls.model_jobs.run(kind, document, target, options, token)
    except NoAnswer as error:
        return {"reason": str(error)}
    result = done.result
    found = places(ls, document, result.pop("located"))
    if kind == "bench" and (row := timed(result)):
        times = Times(done.request.text, result["target"], row["title"], row["layers"], found)
        ls.layer_times[document.uri] = times
        refresh(ls, document)
    return {"result": result, "places": found, "version": done.version}
