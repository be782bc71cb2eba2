"""A model for real: requests ``fxlens/lower``, ``fxlens/bench`` and ``fxlens/estimate`` ``{uri, target?, options?,
workDoneToken?}``.

The answer is ``{result, places, version}`` or ``{reason}``; ``vscode-extension/src/protocol/lowering.ts`` describes
both. One runs at a time. ``$/progress`` reports how far it is; cancelling the request or its progress ends it.
``fxlens/engines`` ``{uri}`` answers with the engines that the file's models can be lowered to.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens.host import model_job

from .graph import places
from .inlay_hints import refresh
from .layer_times import Times

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

UNSEEN = "FX Lens has not seen this file yet."
UNTRUSTED = "The workspace is not trusted: its models are not run."
_TITLES = {"lower": "Lowering", "bench": "Benchmarking", "estimate": "Estimating"}


def register(server: FxLensServer) -> None:
    one = _OneAtATime(server)

    @server.feature("fxlens/lower")
    async def lower(ls: FxLensServer, params: Any) -> dict[str, Any]:
        return await one.run("lower", _plain(params))

    @server.feature("fxlens/bench")
    async def bench(ls: FxLensServer, params: Any) -> dict[str, Any]:
        return await one.run("bench", _plain(params))

    @server.feature("fxlens/engines")
    async def engines(ls: FxLensServer, params: Any) -> dict[str, Any]:
        document = ls.session.documents.get(params.uri)
        if document is None:
            return {"reason": UNSEEN}
        if not ls.session.trusted:
            return {"reason": UNTRUSTED}
        try:
            return {"engines": await ls.session.engines(document)}
        except model_job.Failed as error:
            return {"reason": str(error)}

    @server.feature("fxlens/estimate")
    async def estimate(ls: FxLensServer, params: Any) -> dict[str, Any]:
        return await one.run("estimate", _plain(params))


class _OneAtATime:
    """Two models that run side by side would spoil each other's times, and share the memory of one machine."""

    def __init__(self, ls: FxLensServer) -> None:
        self.ls = ls
        self.doing: str | None = None

    async def run(self, kind: str, params: dict[str, Any]) -> dict[str, Any]:
        document = self.ls.session.documents.get(params.get("uri", ""))
        if document is None:
            return {"reason": UNSEEN}
        if not self.ls.session.trusted:
            return {"reason": UNTRUSTED}
        if self.doing is not None:
            return {"reason": f"{self.doing} is still running; cancel it, or wait for its end."}
        name = params.get("target")
        self.doing = f"{_TITLES[kind]} {name or document.path}"
        progress = _Progress(self.ls, params.get("workDoneToken"), self.doing)
        try:
            launch, request = self.ls.session.whole(document)
            version = document.version
            job = asyncio.ensure_future(
                model_job.run(launch, kind, request, name, params.get("options") or {}, progress.report)
            )
            progress.cancels(job)
            try:
                result = await job
            except model_job.Failed as error:
                return {"reason": str(error)}
            except asyncio.CancelledError:
                job.cancel()
                await asyncio.wait([job])
                if progress.cancelled:
                    return {"reason": "cancelled"}
                raise
        finally:
            self.doing = None
            progress.end()
        found = _places(self.ls, document, kind, result)
        if kind == "bench" and (row := _timed(result)):
            # What ran is the text that the request was made of.
            model = name or result["target"]
            self.ls.layer_times[document.uri] = Times(request.text, model, row["title"], row["layers"], found)
            refresh(self.ls, document)
        return {"result": result, "places": found, "version": version}


class _Progress:
    """Reports to the client's token; without one, to nobody."""

    def __init__(self, ls: FxLensServer, token: Any, title: str) -> None:
        self.ls, self.token = ls, token
        self.cancelled = False
        if token is not None:
            begin = types.WorkDoneProgressBegin(title=title, cancellable=True, percentage=0)
            ls.work_done_progress.begin(token, begin)

    def cancels(self, job: asyncio.Future) -> None:
        """The client's cancel of the progress ends the job."""
        if self.token is None:
            return

        def cancel(future: Any) -> None:
            if future.cancelled() and not job.done():
                self.cancelled = True
                job.cancel()

        self.ls.work_done_progress.tokens[self.token].add_done_callback(cancel)

    def report(self, text: str, fraction: float) -> None:
        if self.token is not None:
            report = types.WorkDoneProgressReport(message=text, percentage=round(100 * fraction))
            self.ls.work_done_progress.report(self.token, report)

    def end(self) -> None:
        if self.token is not None:
            self.ls.work_done_progress.tokens.pop(self.token, None)
            self.ls.work_done_progress.end(self.token, types.WorkDoneProgressEnd())


def _places(ls: FxLensServer, document: Document, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    """Node name to its places in the source."""
    if kind == "lower":
        rows = [{**layer, "name": layer["node"]} for layer in result["report"]["layers"]]
    elif kind == "estimate":
        rows = result["nodes"]
    else:
        rows = [{**layer, "name": layer["node"]} for layer in _timed(result).get("layers", [])]
    nodes = [
        {"name": row["name"], "span": _span(row["span"]), "call_path": [_span(each) for each in row["call_path"]]}
        for row in rows
    ]
    return places(ls, document, {"nodes": nodes})


def _timed(result: dict[str, Any]) -> dict[str, Any]:
    """The row of the first variant of a benchmark that was timed by layer; empty where none was."""
    return next((row for row in result["report"]["rows"] if row["layers"]), {})


def _span(value: Any) -> dict[str, Any] | None:
    return dict(zip(("file", "line", "column", "end_line", "end_column"), value, strict=True)) if value else None


def _plain(value: Any) -> Any:
    """Parameters of a method that LSP does not know arrive as named tuples."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
