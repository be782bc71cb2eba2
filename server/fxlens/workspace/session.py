"""The work of a language server: handles changes of open documents, settings and other files, and answers requests
about documents. Independent of LSP's messages; everything runs on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fxlens.answers import Engine, LowerResult
from fxlens.config.project import is_configuration
from fxlens.config.settings import Settings
from fxlens.host.launch import Launch
from fxlens.host.model_job import OnProgress
from fxlens.host.pool import Pool
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits, Request
from fxlens.jobs import dynamic_shapes, engines, fix_all, lower, names, trace
from fxlens.record import Finding, Record, Target
from fxlens.sources.notebook import is_notebook, module_path
from fxlens.sources.paths import key
from fxlens.views.verdicts import named

from .document import Document, Fixing
from .open_files import OpenFiles
from .refreshing import Publish, Refreshing
from .status import Status, StatusReport
from .tasks import Tasks

_DEPENDENT_DELAY = 0.3
_LEAST_PAUSE = 0.03
_WHOLE_DEADLINE = 600.0
_TOGETHER = 0.05  # seconds for which deleted paths are collected
_MOST_GONE = 100


def pause(document: Document, most: float) -> float:
    """Seconds without typing before a trace: at most the time of a trace, which the next key cancels."""
    return most if document.took is None else min(most, max(document.took, _LEAST_PAUSE))


class Session:
    """Give it the documents; it calls ``publish(document, findings, complete)``, ``status(status)``,
    ``traced(document)`` for each new record, and ``judged(document)`` when more classes are judged during a trace."""

    def __init__(
        self,
        publish: Publish,
        status: Callable[[Status], None],
        traced: Callable[[Document], None] = lambda document: None,
        judged: Callable[[Document], None] = lambda document: None,
    ) -> None:
        self._publish, self._traced = publish, traced
        self._files = OpenFiles(self._reconfigured)
        self._environment = self._files.environment
        self._gone: set[str] = set()
        self._tasks = Tasks()
        self._status = StatusReport(self._files, status)
        self._refreshing = Refreshing(self._files, self._tasks, self._status, publish, traced, judged)
        self.documents = self._files.documents
        self.document_at = self._files.at
        self.selected = self._files.selected
        self.cursor = self._files.cursor
        self.why_not_run = self._files.why_not_run
        self.is_judging = self._refreshing.is_judging
        self.status_now = self._status.now
        self.settings_for = self._environment.settings
        self.launch_for = self._environment.launch
        self.pool_for = self._environment.pool
        self.configured = self._files.configured.wait

    # Documents

    def opened(
        self,
        uri: str,
        path: str,
        folder: str | None,
        text: str,
        version: int | None,
        broken: Sequence[Finding] = (),
    ) -> None:
        document = Document(uri, path, folder, text, version, broken=broken)
        self.documents[uri] = document
        self._refreshing.schedule(document, 0.0)
        # An editor restores what was not saved when it ended, and reloads what has changed on disk by closing it.
        self._refreshing.schedule_dependents(path, _DEPENDENT_DELAY, if_changed=document.saved)

    def changed(self, uri: str, text: str, version: int | None, broken: Sequence[Finding] = ()) -> None:
        document = self.documents.get(uri)
        if document is None:
            return
        edited = document.edit(text, version, broken)
        self._go_to(document, document.line if edited is None else edited)
        settings = self._files.settings(document)
        if settings.run == "onType":
            self._refreshing.schedule(document, pause(document, settings.debounce / 1000))
            self._refreshing.schedule_dependents(document.path, _DEPENDENT_DELAY)
            self._refreshing.read_ahead(document)
        else:
            self._refreshing.stop(document)
            self._refreshing.show(document, document.moved())
            if settings.run == "onSave" and document.is_on_disk():  # the editor has loaded it again
                self._settled(document)

    def saved(self, uri: str) -> None:
        document = self.documents.get(uri)
        if document is None:
            return
        document.saved_by_user = True
        if self._files.settings(document).run == "manual":
            document.saved = True
            return
        if document.record_text == document.text:
            self._refreshing.capture(document, whole=True)
        self._settled(document)

    def _settled(self, document: Document) -> None:
        """Its text is that of the file now."""
        document.saved = True
        under_way = document.task is not None and not document.task.done()
        if document.record_text != document.text and not under_way:
            self._refreshing.schedule(document, 0.0)
        self._refreshing.schedule_dependents(document.path, 0.0)
        if (knowledge := self._environment.knowledge(document.folder)) is not None:
            knowledge.update(module_path(document.path), document.text)
            self._learn_all()  # it may construct the models of others

    def show_again(self, uri: str) -> None:
        """Publish again after the cell numbers of a notebook changed, which findings and lenses contain."""
        if (document := self.documents.get(uri)) is not None:
            self._refreshing.show_again(document)
            if document.record is not None:
                self._traced(document)

    def closed(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        if document is not None:
            self._refreshing.end(document)
            self._environment.pool(document.folder).kept.forget(document.path)
            module = module_path(document.path)
            same = is_notebook(document.path) or document.is_on_disk()
            if not (document.saved and same):  # others used the discarded text, or the disk's from before
                self._environment.given_up(document.path)
                self.changed_on_disk(module)
            elif module != document.path:
                self._environment.changed(module, None)
            self._publish(document, [], True)
            if self._files.here is document:
                self._files.here = None
            self._status.update()

    def moved_to(self, uri: str, line: int) -> None:
        """The user's cursor is on this line (from 0) now: the class there is traced first, its findings are shown as
        problems, and captures are run on it."""
        document = self.documents.get(uri)
        before = self._files.here, document and document.line
        self._go_to(document, line)
        if document is not None and before != (document, line):
            self._status.update()
            if document.record is not None and document.record_text == document.text:
                self._refreshing.capture(document)

    def _go_to(self, document: Document | None, line: int | None) -> None:
        left, here = self._files.here, self._files
        before = [(each, here.cursor(each)) for each in (left, document) if each is not None]
        here.here = document
        if document is not None:
            document.line = line
        for each, cursor in before:
            if here.cursor(each) != cursor:
                self._refreshing.play(each)

    def changed_on_disk(self, path: str) -> None:
        """A file that is not open has changed: trace again the documents that imported it or that it configures."""
        self._environment.changed(path, None)
        self._learn_all()
        if is_configuration(path):
            self._environment.forget_projects()
        self._refreshing.schedule_dependents(path, _DEPENDENT_DELAY)

    async def gone(self, path: str) -> None:
        """Forgets what was read in a folder, if this path that is no more was one. Many of them are one question."""
        self._gone.add(path)
        if len(self._gone) > 1:
            return  # the first asks about all
        await asyncio.sleep(_TOGETHER)
        paths, self._gone = self._gone, set()
        if len(paths) > _MOST_GONE:
            await self.look_around(whole=True)
            return
        for knowledge in self._environment.known():
            if any([await knowledge.gone(each) for each in paths]):
                self._learn_all()

    async def look_around(self, whole: bool) -> None:
        """Learns what has changed in files of the workspace that nobody has told: in all, or only in those behind links
        out of it."""
        for knowledge in self._environment.known():
            if await knowledge.look_again(whole):
                self._learn_all()

    def _learn_all(self) -> None:
        for document in self.documents.values():
            if document.learning is not None:  # its first answer may be from before
                self._refreshing.learn(document)

    def open_file_changed(self, path: str) -> None:
        """A file that is open has changed on disk: for others, it stands for its text in the editor from now on where
        these differ."""
        document = self.document_at(path)
        if document is None or is_notebook(document.path):
            return
        before, document.saved = document.saved, document.is_on_disk()
        if before != document.saved and document.saved and self._files.settings(document).run == "onSave":
            self._settled(document)
        elif before != document.saved:
            self._refreshing.schedule_dependents(path, _DEPENDENT_DELAY)

    def read_file_changed(self, path: str) -> None:
        """A file that is no source has changed: trace again the documents whose code has read it."""
        self._refreshing.schedule_dependents(path, _DEPENDENT_DELAY)

    def is_read(self, path: str) -> bool:
        """Whether the code of an open document has read this file, or may be reading it now."""
        if any(each.task is not None and not each.task.done() for each in self.documents.values()):
            return True
        return any(each.depends_on(path) or each.rests(path) for each in self.documents.values())

    def configuration_opened(self, path: str, text: str | None) -> None:
        """A project's configuration was opened with this text, or closed (None): unsaved text counts, too."""
        if self._environment.open_configuration(path, text):
            self._environment.forget_projects()

    def opened_configuration(self, path: str) -> str | None:
        """The text of a configuration that is open in the editor."""
        return self._environment.configuration(path)

    def is_open(self, path: str) -> bool:
        """Whether a file is open in the editor, so that its text there counts."""
        return self.document_at(path) is not None or self.opened_configuration(path) is not None

    def edited(self, path: str) -> float:
        """When the editor last changed the text of a file, or gave up such a change by closing it, by the monotonic
        clock; 0 if it never did."""
        document = self.document_at(path)
        return max(document.edited if document else 0.0, self._environment.edited.get(key(path), 0.0))

    def _reconfigured(self, folder: str | None, here: str) -> None:
        for document in list(self.documents.values()):
            of_it = document.folder == folder and os.path.dirname(document.path) == here
            if of_it and self._files.settings(document).run != "manual":
                self._refreshing.schedule(document, _DEPENDENT_DELAY)

    # Requests

    async def trace_now(self, uri: str) -> Record | None:
        """Traces the document unconditionally; returns its record, or None if it is not open or may not run."""
        document = self.documents.get(uri)
        if document is None or not self._files.may_run(document):
            return None
        document.forget_crashes()
        document.asked = True
        self._refreshing.schedule(document, 0.0)
        return await self.record(uri)

    async def record(self, uri: str, now: bool = False) -> Record | None:
        """Waits for the record of the current text; returns the last good one if this text has none, or at once with
        ``now``."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if now and document.record is not None:
            return document.record
        while (task := document.task) is not None and not task.done():
            await asyncio.wait({task})
        return document.record

    async def _traced_now(self, uri: str) -> Document | None:
        """The document, once its record is that of its text; None if it is not open or may not run."""
        record, document = await self.record(uri), self.documents.get(uri)
        if document is None or record is None or document.record_text != document.text:
            return None
        if not self._files.may_run(document):
            return None
        return document

    async def fix_capture(self, uri: str, name: str, capture: str) -> fix_all.Fixed | None:
        """A model's file, and those that it uses, after the fixes that are proven for a capture."""
        if (document := await self._traced_now(uri)) is None or (record := document.record) is None:
            return None
        text, target = document.text, named(record, name)
        if target is None:
            return None
        pool, request = self._environment.pool(document.folder), self._files.request(document)
        selection = self._environment.selection(document.folder, document.path)
        alone: Record = {**record, "targets": [target]}
        fixed = await fix_all.run(pool, request, alone, selection, capture=capture, unsafe=True)
        return fixed if document.text == text else None

    async def trial(self, document: Document, text: str) -> Record | None:
        """The record that the document would have with this text; None if it may not run."""
        if not self._files.may_run(document):
            return None
        request = replace(self._files.request(document), text=text)
        return await trace.run(self._environment.pool(document.folder), request)

    async def _fixed(self, document: Document, record: Record, parts: Sequence[int]) -> fix_all.Fixed | None:
        if (checking := document.verifying) is not None and not checking.done():
            await asyncio.wait({checking})
        text, checked = document.text, document.record or record
        if document.record_text != text:
            return None
        fixing = document.fixing
        if fixing is None or fixing.of != (text, parts):
            pool, request = self._environment.pool(document.folder), self._files.request(document)
            selection = self._environment.selection(document.folder, document.path)
            task = asyncio.ensure_future(fix_all.run(pool, request, checked, selection, parts=parts))
            fixing = document.fixing = Fixing((text, parts), task)
        fixing.waiting += 1
        try:
            await asyncio.wait({fixing.task})
        finally:
            fixing.waiting -= 1
            if not fixing.waiting:
                fixing.task.cancel()
                document.fixing = None if document.fixing is fixing else document.fixing
        return fixing.task.result() if document.text == text else None

    async def fix_all(self, uri: str, parts: Sequence[int] = ()) -> fix_all.Fixed | None:
        """The document, and the files that it uses, after all proven fixes, or with each of its ``parts`` fixed
        separately; None if it is not open or may not run. Concurrent requests for the same text share one answer."""
        if (document := self.documents.get(uri)) is None:
            return None
        with self._refreshing.holding(document):  # also while it is traced: its findings may be shown already
            if await self._traced_now(uri) is not document or (record := document.record) is None:
                return None
            return await self._fixed(document, record, parts)

    async def names(self, document: Document, target: Target, patience: float) -> names.Names:
        """What the names in the code of a model hold, in the text of the document's record; nothing where that is not
        known within so many seconds.  The job goes on for whoever asks next."""
        if not self._files.may_run(document):
            return {}
        if document.naming[0] is not document.record_began:
            document.stop_naming()
            document.naming = document.record_began, {}
        known, name = document.naming[1], target["name"]
        if name not in known:
            pool = self._environment.pool(document.folder)
            request = replace(self._files.request(document), text=document.record_text)
            known[name] = asyncio.ensure_future(names.run(pool, request, target))
        await asyncio.wait({known[name]}, timeout=patience)
        return known[name].result() if known[name].done() and not known[name].cancelled() else {}

    async def dynamic_shapes(self, uri: str, name: str) -> dynamic_shapes.Specification | None:
        """Which sizes of a model's inputs may vary when it is exported; None if its file is not open or not trusted."""
        document = await self._traced_now(uri)
        target = named(document.record, name) if document is not None and document.record is not None else None
        if document is None or target is None:
            return None
        pool, request = self._environment.pool(document.folder), self._files.request(document)
        return await dynamic_shapes.run(pool, request, target)

    async def engines(self, document: Document) -> list[Engine]:
        """The engines that the document's models can be lowered to. Raises Failed if its interpreter cannot be
        queried."""
        return await engines.run(self._environment.pool(document.folder), self._files.request(document))

    async def preview(self, document: Document, target: str | None, options: Data, say: OnProgress) -> LowerResult:
        """A preview of lowering a model of the document; ``say`` gets the progress. Raises Failed if it cannot be
        made."""
        targets = document.record["targets"] if document.record is not None else []
        exported = any(each["name"] == target and each["status"] != "traced" for each in targets)
        pool, request = self._environment.pool(document.folder), self._files.request(document)
        return await lower.preview(pool, request, target, options, exported, say)

    def whole(self, document: Document) -> tuple[Launch, Request]:
        """For a job on one model of the document that gets all threads and devices, and a longer time."""
        limits = Limits(deadline=_WHOLE_DEADLINE, memory=self._files.settings(document).memory << 20)
        return self._environment.whole(document.folder), replace(self._files.request(document), limits=limits)

    def readers(self, document: Document) -> list[tuple[Document, Record]]:
        """The other documents whose models run through this file, with their records, the largest first."""
        wanted = key(document.path)
        found = [
            (each, each.record)
            for each in list(self.documents.values())  # other threads use it, too
            if each is not document and each.record is not None and wanted in each.reached
        ]
        return sorted(found, key=lambda reader: sum(len(target["nodes"]) for target in reader[1]["targets"]))[::-1]

    # Environment

    @property
    def trusted(self) -> bool:
        """Whether user code may be run."""
        return self._files.trusted

    def begin(self, trusted: bool) -> None:
        """The client's initialization."""
        self._files.trusted = trusted

    def regroup(self, folders: Mapping[str, str | None], confined: bool) -> None:
        """The folders of all open documents, by address; ``confined``: those without one are only read."""
        self._files.confined, before = confined, self._files.confined
        for uri, folder in folders.items():
            document = self.documents[uri]
            if folder != document.folder or (folder is None and confined != before):
                self._refreshing.end(document)
                document.folder = folder
                self._refreshing.schedule(document, 0.0)

    def trust(self) -> None:
        """Allows running user code."""
        if not self.trusted:
            self._files.trusted = True
            self.refresh_all()

    async def configure(self, settings: dict[str | None, Settings]) -> None:
        """New settings by folder (None: everything outside): pools of other interpreters end, all documents are
        traced again."""
        first = not self._files.configured.is_set()
        self._files.configured.set()
        change = self._environment.set_settings(settings)
        if change == "nothing":
            return
        if change == "shown" and not first:
            for document in self.documents.values():
                self._refreshing.play(document)
                if document.record is not None:
                    self._traced(document)
            return
        folders = {document.folder for document in self.documents.values()}
        left = self._environment.leave_but(folders) if self.trusted else []
        if not first:
            for document in self.documents.values():
                self._refreshing.end(document)  # a trace would report that its interpreter is no longer used
            self.refresh_all()
        for each in left:
            await each.close()

    async def restart(self) -> None:
        """Ends every worker and the indexes, and traces all documents in new ones."""
        for document in self.documents.values():
            self._refreshing.end(document)
            document.crashes.clear()
        for pool in list(self._environment.pools.values()):
            await pool.restart()
        for index in self._environment.leave_knowledge():
            await index.close()
        for folder in {document.folder for document in self.documents.values()}:
            self.prepare(folder)
        self._status.forget()
        self.refresh_all()

    def refresh_all(self) -> None:
        for document in list(self.documents.values()):
            self._refreshing.schedule(document, 0.0)
        self._status.update()

    def prepare(self, folder: str | None) -> None:
        """Starts the worker of a folder before it is needed."""
        if self.trusted and self.settings_for(folder).enable:
            self._tasks.start(self._warm(self._environment.pool(folder)))
            if (knowledge := self._environment.knowledge(folder)) is not None:
                self._tasks.start(knowledge.start())

    async def _warm(self, pool: Pool) -> None:
        with contextlib.suppress(Exception):
            await pool.ready()
        self._status.update()

    async def close(self) -> None:
        for document in self.documents.values():
            self._refreshing.end(document)
        self._refreshing.close()
        await self._environment.close()

    def debug_information(self) -> Mapping[str, object]:
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
