"""Requests beyond LSP: the record, an immediate trace, a restart, and information for a bug report.

Requests ``fxlens/record``, ``fxlens/trace`` (both ``{uri}``, answer ``{record, version, cursor}`` or null; ``cursor``
is the class at the cursor), ``fxlens/restart``, ``fxlens/debugInfo`` (answer ``{text}``), ``fxlens/status``.
Notification to the client: ``fxlens/recordChanged`` ``{uri, version}``.
"""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING, Any

from fxlens import __version__
from fxlens.answers import RecordAnswer
from fxlens.record import Record

from . import params as parameters
from .large import Encoded, encoded

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document
    from fxlens.workspace.status import Status


def register(server: FxLensServer) -> None:
    server.on_traced.append(_changed)

    @server.feature("fxlens/record")
    async def record(ls: FxLensServer, params: Any) -> Encoded | None:
        return await _answer(ls, params, await ls.session.record(parameters.text(parameters.of(params), "uri")))

    @server.feature("fxlens/trace")
    async def trace(ls: FxLensServer, params: Any) -> Encoded | None:
        return await _answer(ls, params, await ls.session.trace_now(parameters.text(parameters.of(params), "uri")))

    @server.feature("fxlens/restart")
    async def restart(ls: FxLensServer, params: Any) -> None:
        await ls.model_jobs.release()
        await ls.session.restart()

    @server.feature("fxlens/debugInfo")
    def debug_information(ls: FxLensServer, params: Any) -> dict[str, str]:
        return {"text": describe(ls)}

    @server.feature("fxlens/status")
    def status(ls: FxLensServer, params: Any) -> Status:
        return ls.session.status_now()


def describe(ls: FxLensServer) -> str:
    """Versions, interpreters, workers and documents, as text to paste."""
    head = {
        "fxlens": __version__,
        "server": {"python": sys.version.split()[0], "executable": sys.executable, "platform": platform.platform()},
        "encoding": ls.encoding,
    }
    return json.dumps({**head, **ls.session.debug_information()}, indent=2, default=str)


def _changed(ls: FxLensServer, document: Document) -> None:
    ls.protocol.notify("fxlens/recordChanged", {"uri": document.uri, "version": document.record_version})


async def _answer(ls: FxLensServer, params: Any, record: Record | None) -> Encoded | None:
    document = ls.session.documents.get(parameters.text(parameters.of(params), "uri"))
    if record is None or document is None:
        return None
    cursor = ls.session.cursor(document)
    answer: RecordAnswer = {"record": record, "version": document.record_version, "cursor": cursor}
    return await encoded(lambda: answer)
