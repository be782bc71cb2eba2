"""The work of a language server: when which open document is traced, and what is shown of it.  Knows nothing of LSP's
messages.

Everything runs on one event loop.  An edit cancels the job in flight for its document; a result is shown only for
the version it was made from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fxlens.config.project import is_configuration
from fxlens.config.selection import apply
from fxlens.config.settings import Settings
from fxlens.host import model_job, tracing, verifying
from fxlens.host.launch import Launch
from fxlens.host.outcome import Limits
from fxlens.host.pool import Pool
from fxlens.sources import from_tests
from fxlens.sources.paths import key

from .document import FATAL, Document, Finding, is_library, on_disk, said_left_alone
from .environment import Environment

log = logging.getLogger(__name__)

_DEPENDENT_DELAY = 0.3
_WHOLE_DEADLINE = 600.0


class Session:
    """Give it the documents; it calls ``publish(document, findings)`` and ``status(data)``."""

    def __init__(
        self,
        publish: Callable[[Document, list[Finding]], None],
        status: Callable[[dict[str, Any]], None],
        traced: Callable[[Document], None] = lambda document: None,
    ) -> None:
        self._publish, self._status, self._traced = publish, status, traced
        self.documents: dict[str, Document] = {}
        self.trusted = False
        self._environment = Environment()
        self._busy = 0
        self._tasks: set[asyncio.Task] = set()
        self._last_status: dict[str, Any] | None = None
        self._configured = asyncio.Event()

    # Documents

    def opened(self, uri: str, path: str, folder: str | None, text: str, version: int | None) -> None:
        document = Document(uri, path, folder, text, version, saved=on_disk(path) == text)
        self.documents[uri] = document
        self._schedule(document, 0.0)

    def changed(self, uri: str, text: str, version: int | None) -> None:
        document = self.documents.get(uri)
        if document is None:
            return
        document.edit(text, version)
        if self._settings(document).run == "onType":
            self._schedule(document, self._settings(document).debounce / 1000)
            self._schedule_dependents(document.path, _DEPENDENT_DELAY)
        else:
            self._stop(document)
            self._show(document, document.moved())

    def saved(self, uri: str) -> None:
        document = self.documents.get(uri)
        if document is None:
            return
        document.saved = True
        if self._settings(document).run == "manual":
            return
        if document.record_text != document.text:
            self._schedule(document, 0.0)
        self._schedule_dependents(document.path, 0.0)

    def closed(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        if document is not None:
            self._end(document)
            self._publish(document, [])
            self._report_status()

    def changed_on_disk(self, path: str) -> None:
        """A file that is not open has changed: documents that imported it are traced again; all that it configures."""
        if is_configuration(path):
            self._configuration_changed(path)
        else:
            self._schedule_dependents(path, _DEPENDENT_DELAY)

    def configuration_opened(self, path: str, text: str | None) -> None:
        """A project's configuration is open with this text, or closed (None): what is not saved counts too."""
        if self._environment.open_configuration(path, text):
            self._configuration_changed(path)

    def opened_configuration(self, path: str) -> str | None:
        """The text of a configuration that is open in the editor."""
        return self._environment.configuration(path)

    def _configuration_changed(self, path: str) -> None:
        self._environment.forget_projects()
        folder = os.path.join(os.path.dirname(key(path)), "")
        for document in list(self.documents.values()):
            if key(document.path).startswith(folder) and self._settings(document).run != "manual":
                self._schedule(document, _DEPENDENT_DELAY)

    # Requests

    async def trace_now(self, uri: str) -> dict[str, Any] | None:
        """Traces the document whatever happened before; its record, or None where it is not open or not trusted."""
        document = self.documents.get(uri)
        if document is None or not self.trusted:
            return None
        document.forget_crashes()
        document.asked = True
        self._schedule(document, 0.0)
        return await self.record(uri)

    async def record(self, uri: str, now: bool = False) -> dict[str, Any] | None:
        """The record of the present text, waited for; the last good one where this text gives none, or at once where
        it is wanted ``now``."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if now and document.record is not None:
            return document.record
        while (task := document.task) is not None and not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(task)
        return document.record

    async def mend(self, uri: str) -> verifying.Mended | None:
        """What the proven fixes make of the document and the files that it uses; None where it is not open or not
        trusted."""
        document = self.documents.get(uri)
        record = await self.record(uri)
        if document is None or record is None or not self.trusted or document.record_text != document.text:
            return None
        if (checking := document.verifying) is not None and not checking.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(checking)
        text = document.text
        pool, request = self._environment.pool(document.folder), self._request(document)
        selection = self._environment.selection(document.folder, document.path)
        mended = await verifying.mend(pool, request, record, selection)
        return mended if document.text == text else None

    async def engines(self, document: Document) -> list[dict[str, Any]]:
        """The engines that the document's models can be lowered to.

        Raises:
            model_job.Failed: its interpreter cannot be asked.
        """
        return await model_job.engines(self._environment.pool(document.folder), self._request(document))

    def whole(self, document: Document) -> tuple[Launch, tracing.Request]:
        """For a job on one model of the document that gets all threads and devices, and a longer time."""
        limits = Limits(deadline=_WHOLE_DEADLINE, memory=self._settings(document).memory << 20)
        return self._environment.whole(document.folder), replace(self._request(document), limits=limits)

    def readers(self, document: Document) -> list[Document]:
        """The other documents whose models run through this file, the largest record last."""
        wanted = key(document.path)
        found = [each for each in self.documents.values() if each is not document and wanted in each.reached]
        return sorted(found, key=lambda each: sum(len(target["nodes"]) for target in (each.record or {})["targets"]))

    def document_at(self, path: str) -> Document | None:
        wanted = key(path)
        return next((each for each in self.documents.values() if key(each.path) == wanted), None)

    # Environment

    def trust(self) -> None:
        """From now on user code may run."""
        if not self.trusted:
            self.trusted = True
            self.refresh_all()

    async def configure(self, settings: dict[str | None, Settings]) -> None:
        """New settings by folder (None: everything outside): pools of other interpreters end, all documents are
        traced again."""
        first = not self._configured.is_set()
        self._configured.set()
        change = self._environment.set_settings(settings)
        if change == "nothing":
            return
        if change == "shown" and not first:
            for document in self.documents.values():
                if document.record is not None:
                    self._traced(document)
            return
        if self.trusted:
            await self._environment.close_but({document.folder for document in self.documents.values()})
        if not first:
            self.refresh_all()

    async def restart(self) -> None:
        """Ends every worker and traces all documents in new ones."""
        for document in self.documents.values():
            self._end(document)
            document.crashes.clear()
        for pool in self._environment.pools.values():
            await pool.restart()
        self._last_status = None
        self.refresh_all()

    def refresh_all(self) -> None:
        for document in list(self.documents.values()):
            self._schedule(document, 0.0)
        self._report_status()

    def prepare(self, folder: str | None) -> None:
        """Starts the worker of a folder before it is needed."""
        if self.trusted and self.settings_for(folder).enable:
            self._spawn(self._warm(self._environment.pool(folder)))

    async def close(self) -> None:
        for document in self.documents.values():
            self._end(document)
        await self._environment.close()

    def settings_for(self, folder: str | None) -> Settings:
        return self._environment.settings(folder)

    def debug_information(self) -> dict[str, Any]:
        return {
            "trusted": self.trusted,
            "documents": [
                {
                    "path": each.path,
                    "version": each.version,
                    "traced": each.record_version,
                    "leftAlone": each.left_alone(),
                }
                for each in self.documents.values()
            ],
            "workers": self._environment.workers(),
        }

    # Work

    def _schedule(self, document: Document, delay: float) -> None:
        self._let_finish(document)
        self._stop(document)
        document.task = self._spawn(self._refresh(document, delay))

    def _let_finish(self, document: Document) -> None:
        """A trace whose findings are shown goes on to its graphs: else no view would follow while one types."""
        late = document.finishing is not None and not document.finishing.done()
        if not late and document.task is not None and not document.task.done() and document.diagnosed is not None:
            document.finishing, document.task = document.task, None
        document.diagnosed = None

    def _text_of(self, path: str) -> str | None:
        document = self.document_at(path)
        return on_disk(path) if document is None else document.text

    def _schedule_dependents(self, path: str, delay: float) -> None:
        wanted = key(path)
        for other in list(self.documents.values()):
            record = other.record or {}
            if key(other.path) == wanted:
                continue
            # A test that is new has not been read yet, and may say how a model is called.
            if any(key(file) == wanted for file in record.get("files") or ()) or (
                from_tests.mentions(path, record.get("asked") or [], self._text_of)
            ):
                self._schedule(other, delay)

    def _stop(self, document: Document) -> None:
        for task in (document.task, document.verifying, document.lowering):
            if task is not None and not task.done():
                task.cancel()
        document.task = document.verifying = document.lowering = None
        document.diagnosed = None

    def _end(self, document: Document) -> None:
        self._stop(document)
        if document.finishing is not None:
            document.finishing.cancel()

    async def _refresh(self, document: Document, delay: float) -> None:
        if delay:
            await asyncio.sleep(delay)
        await self._configured.wait()
        settings = self._settings(document)
        if not settings.enable or (is_library(document.path, document.folder) and not document.asked):
            self._show(document, [])
            if document.record is not None:
                document.forget()
                self._traced(document)
            return
        if not self.trusted:
            self._show(document, document.without_running())
            return
        digest = hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()
        if document.left_alone(digest):
            self._show(document, [said_left_alone(finding) for finding in document.shown])
            return
        self._busy += 1
        self._report_status()
        version = document.version
        try:
            pool, request = self._environment.pool(document.folder), self._request(document)
            record = await tracing.trace(pool, request, lambda early: self._early(document, version, early, digest))
        finally:
            self._busy -= 1
            self._report_status()
        if self.documents.get(document.uri) is not document:
            return
        if document.version == version:
            self._finish(document, record, digest)
        elif record["targets"] and (document.record_version or 0) < (version or 0):
            document.keep(record, request.text, version)
            self._traced(document)

    def _early(self, document: Document, version: int | None, record: dict[str, Any], digest: str) -> None:
        """Shows the findings of a file whose models were all diagnosed, while their graphs are still on the way."""
        if document.version == version and record["targets"] and document.uri in self.documents:
            document.diagnosed = version
            found = tracing.findings(record)
            document.count_crash(found, digest)
            self._show(document, found, record)

    def _finish(self, document: Document, record: dict[str, Any], digest: str) -> None:
        found = tracing.findings(record)
        codes = {finding["code"] for finding in found}
        if "FX308" in codes and not record["targets"]:
            # Half-typed text: what was known of the lines that did not change stays, the others are only read.
            traced = [each for each in document.moved() if each["source"] != "syntax"]
            self._show(document, [*found, *traced, *document.read_only()])
            return
        document.count_crash(found, digest)
        unusable = not record["targets"] and codes & {"FX185", "FX301", "FX306", "FX309", *FATAL}
        if unusable:
            found += [each for each in document.without_running() if each["code"] not in codes]
        if not unusable or document.record is None:
            document.keep(record, document.text, document.version)
        self._show(document, found, record)
        self._traced(document)
        own = [each for target in record["targets"] for each in target["findings"]]
        if self._settings(document).verify and any(each["fixes"] for each in own):
            document.verifying = self._spawn(self._verify(document, record))
        if self._settings(document).lowering == "hints" and not unusable:
            document.lowering = self._spawn(self._judge_lowering(document, record, document.verifying))

    async def _verify(self, document: Document, record: dict[str, Any]) -> None:
        # In the background, and given up when the text changes: there is time for large models.
        pool, request = self._environment.pool(document.folder), self._request(document)
        note = await verifying.verify(pool, request, record, rounds=10)
        if note:
            log.info(note)

    async def _judge_lowering(self, document: Document, record: dict[str, Any], first: asyncio.Task | None) -> None:
        """What an engine could not take, shown last: nothing waits for it."""
        from fxlens.host import lowering_hints

        if first is not None:
            await asyncio.wait([first])
        if await lowering_hints.add(self._environment.pool(document.folder), self._request(document), record):
            self._show(document, tracing.findings(record), record)
            if document.record is record:
                self._traced(document)  # the graph tells what stays in PyTorch, too

    def _show(self, document: Document, found: list[Finding], record: dict[str, Any] | None = None) -> None:
        if document.note(found, record):
            self._publish(document, self.selected(document, found))

    def selected(self, document: Document, found: list[Finding]) -> list[Finding]:
        """Those of the findings that settings, configuration and comments let through."""
        selection = self._environment.selection(document.folder, document.path)
        return apply(found, selection, document.text, document.path)

    def _request(self, document: Document) -> tracing.Request:
        settings, project = self._settings(document), self._environment.project(document.folder, document.path)
        overlays = {
            each.path: each.text for each in self.documents.values() if not each.saved and each.uri != document.uri
        }
        # A fix may extend one: the job proposes edits of the text that the editor has.
        overlays.update(self._environment.configurations)
        return tracing.Request(
            path=document.path,
            text=document.text,
            folder=document.folder,
            overlays=overlays,
            config_targets=project.targets_of(document.path),
            leaf_modules=project.leaf_modules,
            batch=settings.batch,
            device=settings.device,
            limits=Limits(deadline=settings.deadline, memory=settings.memory << 20),
        )

    def _settings(self, document: Document) -> Settings:
        return self.settings_for(document.folder)

    async def _warm(self, pool: Pool) -> None:
        with contextlib.suppress(Exception):
            await pool.ready()
        self._report_status()

    def _report_status(self) -> None:
        data = self.status_now()
        if data != self._last_status:
            self._last_status = data
            self._status(data)

    def status_now(self) -> dict[str, Any]:
        """``state`` is untrusted, error, busy, starting or ready."""
        problem = next((pool.problem for pool in self._environment.pools.values() if pool.problem), "")
        hello = next((pool.hello for pool in self._environment.pools.values() if pool.hello), {})
        if not self.trusted:
            state, message = "untrusted", "The workspace is not trusted: no code is run."
        elif problem:
            state, message = "error", problem
        elif self._busy:
            state, message = ("busy" if hello else "starting"), None
        else:
            state, message = ("ready" if hello or not self._environment.pools else "starting"), None
        return {
            "state": state,
            "message": message,
            "python": hello.get("executable"),
            "pythonVersion": hello.get("python"),
            "torch": hello.get("torch"),
            "pending": self._busy,
        }

    def _spawn(self, coroutine: Any) -> asyncio.Task:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the session failed", exc_info=error)
