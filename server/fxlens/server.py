"""The language server: registers features, nothing else."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from . import __version__
from .features.agents import Agents
from .features.cells import Cells
from .features.large import Encoded
from .features.model_jobs import ModelJobs
from .features.notebooks import SYNCHRONISATION
from .record import Finding
from .sources.changes import Place, changed
from .workspace.document import Document
from .workspace.session import Session
from .workspace.tasks import Tasks
from .workspace.view_files import ViewFiles

if TYPE_CHECKING:
    from .features.layer_times import Times
    from .workspace.status import Status

FEATURES = (
    "lifecycle", "configuration", "documents", "watched_files", "unwatched_files", "notebooks", "diagnostics",
    "code_actions", "requests", "captures", "graph", "code", "navigation", "code_lens", "example_inputs", "inlay_hints",
    "hover", "lowering", "passes", "models", "agents",
)  # fmt: skip
"""Modules in ``fxlens.features``, registered in this order."""


class FxLensProtocol(LanguageServerProtocol):
    """Translates between cells and notebooks. Corrects eight things in pygls: it keeps the future of every notification
    forever; it accepts a second ``initialize``, which could change capabilities and folders during work; it answers
    requests before ``initialize`` and none after ``shutdown``, which fails if it has to cancel something; it does not
    answer requests with invalid parameters; it runs commands with missing arguments; it encodes answers of megabytes in
    the event loop; and in edits it treats form feeds as line ends, and takes seconds for thousands of edits."""

    _server: FxLensServer
    _begun = _ending = False

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        if isinstance(result, Encoded) and self._server.cells.speak_in(msg_id, result):
            result = json.loads(result)  # its lines may be those of cells
        if error is not None or not isinstance(result, Encoded) or self.writer is None:
            super()._send_response(msg_id, result, error)
            return
        self._result_types.pop(msg_id, None)
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(msg_id).encode(), result)
        self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(self._server.cells.incoming(self._numbered(data)))
        except (JsonRpcException, RecursionError):
            number = data.get("id")
            if "method" in data and isinstance(number, (str, int)):
                message = f"the parameters of {str(data['method'])[:100]} are not as LSP describes them"
                self._send_response(number, error=types.ResponseError(types.ErrorCodes.InvalidParams.value, message))
            raise

    def _numbered(self, data: dict[str, Any]) -> dict[str, Any]:
        """A change without its version, which older protocols allow, has the next one."""
        params = data.get("params") if data.get("method") == types.TEXT_DOCUMENT_DID_CHANGE else None
        known = params.get("textDocument") if isinstance(params, dict) else None
        if isinstance(known, dict) and isinstance(known.get("uri"), str) and known.get("version") is None:
            document = self.workspace.text_documents.get(unquote(known["uri"]))
            known["version"] = ((document.version if document else None) or 0) + 1
        return data

    def _send_data(self, data: Any) -> None:
        for each in self._server.cells.outgoing(data, self._plain):
            super()._send_data(each)

    def _plain(self, data: Any) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(data, default=self._serialize_message))
        return plain

    def handle_message(self, message: Any) -> None:
        method, number = getattr(message, "method", None), getattr(message, "id", None)
        if method is None or number is None or message.jsonrpc != self.VERSION:
            super().handle_message(message)
            return
        if (error := self._refusal(method)) is not None:
            self._send_response(number, error=error)
            return
        self._begun |= method == types.INITIALIZE
        self._ending |= method == types.SHUTDOWN
        super().handle_message(message)

    def _refusal(self, method: str) -> types.ResponseError | None:
        """Why a request has no other answer now."""
        if self._ending:
            return types.ResponseError(types.ErrorCodes.InvalidRequest.value, "shutdown was sent before")
        if not self._begun and method != types.INITIALIZE:
            return types.ResponseError(types.ErrorCodes.ServerNotInitialized.value, "initialize was not sent yet")
        if self._begun and method == types.INITIALIZE:
            return types.ResponseError(types.ErrorCodes.InvalidRequest.value, "initialize was sent before")
        return None

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Any:
        shutting = super().lsp_shutdown(*args)
        yield next(shutting)
        for number, future in list(self._request_futures.items()):  # each leaves the table once it is cancelled
            if number != self.msg_id:
                future.cancel()
        yield from shutting

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Any:
        document = self.workspace.text_documents.get(unquote(params.text_document.uri))
        if document is None:  # it was closed
            return
        text = changed(document.source, map(_change, params.content_changes), self._server.encoding)
        whole = types.TextDocumentContentChangeWholeDocument(text=text)
        params = types.DidChangeTextDocumentParams(params.text_document, [whole])
        yield from super().lsp_text_document__did_change(params)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    def lsp_workspace__execute_command(self, params: types.ExecuteCommandParams) -> Any:
        params.arguments = params.arguments or []
        return (yield from super().lsp_workspace__execute_command(params))

    def _execute_handler(self, msg_id: Any, *args: Any, **kwargs: Any) -> None:
        super()._execute_handler(msg_id, *args, **kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))


def _change(change: types.TextDocumentContentChangeEvent) -> str | tuple[Place, Place, str]:
    if not isinstance(change, types.TextDocumentContentChangePartial):
        return change.text
    start, end = change.range.start, change.range.end
    return (start.line, start.character), (end.line, end.character), change.text


class FxLensServer(LanguageServer):
    """A pygls server with a session.  Features register their handlers for documents in ``on_*``."""

    def __init__(self) -> None:
        super().__init__(
            "fxlens",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=SYNCHRONISATION,
            protocol_cls=FxLensProtocol,
        )
        self.cells = Cells(lambda uri: self.workspace.get_text_document(uri).version, lambda: self.encoding)
        self.session = Session(self._publish, self._status, self._traced, self._judged)
        self.views = ViewFiles(self.session)
        self.model_jobs = ModelJobs(self)
        self.agents = Agents(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        """Set by ``initialize``, before which nothing is started."""
        self.settings_requests = 0
        """The number of requests for the client's settings."""
        self.pushed_settings: Any = None
        """The section that the client has sent last."""
        self.tells_cursor = False
        """Whether the client says where its cursor is."""
        self.asks_for_trust = False
        """Whether the client asks its user before code of a workspace, or of a file outside of it, runs."""
        self.watches_files = False
        """Whether the client watches the files of the workspace."""
        self.tasks = Tasks()
        self.on_publish: list[Callable[[FxLensServer, Document, list[Finding], bool], None]] = []
        self.on_traced: list[Callable[[FxLensServer, Document], None]] = []
        self.on_judged: list[Callable[[FxLensServer, Document], None]] = []
        self.layer_times: dict[str, Times] = {}
        """By document: the times of the last benchmark by layer."""

    @property
    def encoding(self) -> str:
        """How positions are counted with this client: utf-8, utf-16 or utf-32."""
        value = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        return getattr(value, "value", value)

    async def end(self) -> None:
        """Ends all jobs and their processes, and removes what was written for views."""
        await self.model_jobs.release()
        await self.agents.close()
        await self.session.close()
        self.views.close()

    def end_from_thread(self) -> None:
        """``end``, called from a thread other than the loop's; returns when it is done."""
        if self.loop is not None:
            asyncio.run_coroutine_threadsafe(self.end(), self.loop).result()

    def _publish(self, document: Document, findings: list[Finding], complete: bool) -> None:
        for call in self.on_publish:
            call(self, document, findings, complete)

    def _traced(self, document: Document) -> None:
        for call in self.on_traced:
            call(self, document)

    def _judged(self, document: Document) -> None:
        for call in self.on_judged:
            call(self, document)

    def _status(self, status: Status) -> None:
        self.protocol.notify("fxlens/status", status)


def create() -> FxLensServer:
    """A server with every feature, ready for ``start_io``."""
    server = FxLensServer()
    for name in FEATURES:
        importlib.import_module(f"fxlens.features.{name}").register(server)
    return server
