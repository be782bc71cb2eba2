"""Requests about one model: ``fxlens/lower``, ``fxlens/bench``, ``fxlens/estimate``, ``fxlens/stages`` and
``fxlens/values`` ``{uri, target?, options?, workDoneToken?}``.  With the option ``preview``, ``fxlens/lower`` builds
nothing, and does not wait for other models.

The answer is ``{result, places, trace}`` or ``{reason}``; ``vscode-extension/src/protocol/lowering.ts`` describes
both.  ``$/progress`` reports progress; cancelling the request or its progress ends it.  ``fxlens/engines`` ``{uri}``
answers with the engines that the file's models can be lowered to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fxlens.answers import BenchResult, EnginesAnswer, ModelAnswer, ModelResult, Places, Refusal
from fxlens.host.outcome import Failed

from . import params
from .inlay_hints import refresh
from .layer_times import Times, timed
from .model_jobs import NoAnswer
from .places import places

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/lower")
    async def lower(ls: FxLensServer, given: Any) -> ModelAnswer | Refusal:
        return await _run(ls, "lower", params.of(given))

    @server.feature("fxlens/bench")
    async def bench(ls: FxLensServer, given: Any) -> ModelAnswer | Refusal:
        return await _run(ls, "bench", params.of(given))

    @server.feature("fxlens/engines")
    async def engines(ls: FxLensServer, given: Any) -> EnginesAnswer | Refusal:
        try:
            document = ls.model_jobs.document(params.text(params.of(given), "uri"))
            return {"engines": await ls.session.engines(document)}
        except (NoAnswer, Failed) as error:
            return {"reason": str(error)}

    @server.feature("fxlens/estimate")
    async def estimate(ls: FxLensServer, given: Any) -> ModelAnswer | Refusal:
        return await _run(ls, "estimate", params.of(given))

    @server.feature("fxlens/stages")
    async def stages(ls: FxLensServer, given: Any) -> ModelAnswer | Refusal:
        return await _run(ls, "stages", params.of(given))

    @server.feature("fxlens/values")
    async def values(ls: FxLensServer, given: Any) -> ModelAnswer | Refusal:
        return await _run(ls, "values", params.of(given))


async def _run(ls: FxLensServer, kind: str, given: Mapping[str, Any]) -> ModelAnswer | Refusal:
    target, options, token = given.get("target"), given.get("options"), given.get("workDoneToken")
    options = options if isinstance(options, dict) else {}
    try:
        document = ls.model_jobs.document(params.text(given, "uri"))
        if kind == "lower" and options.get("preview") is True:
            trace = document.trace_of_text
            preview = await ls.model_jobs.beside(
                f"Preview of {target or document.path}", token,
                lambda say: ls.session.preview(document, target, options, say),
            )  # fmt: skip
            return _answer(preview, places(ls, document, preview["located"]), trace)
        done = await ls.model_jobs.run(kind, document, target, options, token)
    except (NoAnswer, Failed) as error:
        return {"reason": str(error)}
    result = cast("ModelResult", done.result)
    found = places(ls, document, result["located"])
    known = document.uri in ls.session.documents  # it may have been closed since
    if kind == "bench" and known and (row := timed(cast("BenchResult", result)["report"])):
        times = Times(done.request.text, result["target"], row["title"], row["layers"], found)
        ls.layer_times[document.uri] = times
        refresh(ls, document)
    return _answer(result, found, done.trace)


def _answer(result: ModelResult, found: Places, trace: float | None) -> ModelAnswer:
    shown = {name: value for name, value in result.items() if name != "located"}
    return {"result": shown, "places": found, "trace": trace}
