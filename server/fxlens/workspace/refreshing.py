"""From an edit to its results: traces a document, checks the fixes of its findings, checks how it could be lowered.

An edit cancels the work in flight for its document; a result is shown only for the version it was made from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from fxlens.jobs import captures as captures_job
from fxlens.jobs import compare, lowering_hints, trace, verify
from fxlens.not_judged import ENDED
from fxlens.overlays import (
    Captured,
    Part,
    findings,
    folded,
    limited,
    of_trace,
    with_captures,
    with_compared,
    with_fixes,
    with_lowering,
    with_parts,
    with_read,
)
from fxlens.record import Finding, Fix, Record, finding
from fxlens.sources import from_tests, known
from fxlens.sources.files import READ_AT_ONCE, changed_since, state_of
from fxlens.sources.notebook import module_path
from fxlens.sources.paths import key
from fxlens.views.coverage import unjudged

from .document import Document, Moment, is_library, read, said_left_alone
from .interpreters import Interpreters
from .open_files import OpenFiles
from .status import StatusReport
from .tasks import Tasks

log = logging.getLogger(__name__)

_MOMENT = 0.1
_AFTER_ANSWER = 0.2  # seconds, for an editor to apply the requested edit
_REST = 0.3  # seconds without an edit, after a trace, before other captures are run
_SOON = 0.1
"""Seconds: before a trace this quick, nothing needs to be shown."""
_AHEAD = 0.05
"""Seconds that the findings of the class at the cursor wait for the others, to be shown together."""
_LENSES = 0.3
"""Seconds between two updates of judged classes during a trace."""
_VERIFY_ROUNDS = 10  # in the background until the text changes, so there is time for large models


Publish: TypeAlias = Callable[[Document, list[Finding], bool], None]
"""(document, findings, whether they are complete for its text) -> None."""


class Refreshing:
    """``publish(document, findings, complete)`` is called with the findings to show, ``traced(document)`` for each new
    record, ``judged(document)`` when more classes are judged, or no more will be."""

    def __init__(
        self,
        files: OpenFiles,
        tasks: Tasks,
        status: StatusReport,
        publish: Publish,
        traced: Callable[[Document], None],
        judged: Callable[[Document], None],
    ) -> None:
        self._files, self._tasks, self._status = files, tasks, status
        self._publish, self._traced, self._judged = publish, traced, judged
        self._interpreters = Interpreters(files.environment, tasks, self._in, self._again)

    def _in(self, folder: str | None) -> list[Document]:
        return [document for document in self._files.documents.values() if document.folder == folder]

    def _again(self, document: Document) -> None:
        document.crashes.clear()
        document.captured.clear()
        if not self._waits(document):
            self.schedule(document, 0.0)

    def schedule(self, document: Document, delay: float) -> None:
        """Traces the document after ``delay`` seconds, unless it is scheduled again before."""
        self._let_finish(document)
        self.stop(document)
        document.task = self._tasks.start(self._refresh(document, delay))

    def _waits(self, document: Document) -> bool:
        """Whether it is traced again only when the user says so."""
        return self._files.settings(document).run == "manual"

    def schedule_dependents(self, path: str, delay: float, if_changed: bool = False) -> None:
        """The same for documents that imported a file, or for whose models it may be a test; ``if_changed``: only for
        those whose trace began before its last change on disk."""
        for other in list(self._files.documents.values()):
            if key(other.path) == key(path) or self._waits(other):
                continue
            began = other.record_began
            if if_changed and began is not None and not changed_since(path, began.of_files):
                continue
            if self._concerns(path, other):
                self.schedule(other, delay)
            elif other.task is not None and not other.task.done():
                other.changed_meanwhile[path] = not if_changed or other.changed_meanwhile.get(path, False)

    def _look_again(self, path: str, document: Document, seconds: float) -> None:
        if path not in document.to_look_at:
            document.to_look_at.add(path)
            self._tasks.start(self._looked_again(path, document, seconds))

    async def _looked_again(self, path: str, document: Document, seconds: float) -> None:
        await asyncio.sleep(seconds + _MOMENT)
        document.to_look_at.discard(path)
        if self._files.documents.get(document.uri) is document:
            self.schedule_dependents(path, 0.0)

    def _concerns(self, path: str, document: Document) -> bool:
        """Whether a change of this file, or of any in this folder, makes the record of a document out of date."""
        if document.record is None:
            return False
        if (seconds := document.until_looked_again(path)) is not None:
            self._look_again(path, document, seconds)
        # A new test has not been read yet, and may call one of the models.
        return document.depends_on(path) or from_tests.mentions(path, document.record["asked"], self._files.text_of)

    def stop(self, document: Document) -> None:
        document.stop_naming()
        for name in ("task", "verifying", "comparing", "lowering", "capturing", "proving"):
            task = getattr(document, name)
            if task is not None and not task.done():
                task.cancel()
            setattr(document, name, None)
        document.diagnosed = None

    def close(self) -> None:
        """Ends the watching of interpreters."""
        self._interpreters.end()

    def end(self, document: Document) -> None:
        """Ends all tasks of a document, also those that finish graphs for views."""
        self.stop(document)
        if document.finishing is not None:
            document.finishing.cancel()

    def show(self, document: Document, found: list[Finding], record: Record | None = None) -> None:
        if record is not None:
            found = folded(record, found)
        else:
            limits = {name: part.limit for name, part in self._parts(document, found).items()}
            found = [limited(each, limits) for each in found]
        if document.note(found, record):
            self._say(document, found, True)

    def show_again(self, document: Document) -> None:
        """Publishes the current findings again; if there are none yet, the running trace will."""
        if document.shown_version == document.version:
            self._say(document, document.shown, True)

    @contextlib.contextmanager
    def holding(self, document: Document) -> Iterator[None]:
        """Holds back new findings of later jobs: an editor drops its request for all fixes, which takes seconds, when
        it receives diagnostics meanwhile."""
        document.fixes_awaited += 1
        try:
            yield
        finally:
            document.fixes_awaited -= 1
            if document.held and not document.fixes_awaited:
                document.held = False
                # After the answer, and not if it changes the text.
                asyncio.get_running_loop().call_later(_AFTER_ANSWER, self.show_again, document)

    def _say(self, document: Document, found: list[Finding], complete: bool) -> None:
        if document.fixes_awaited and document.said_version == document.version:
            document.held = True
            return
        document.said_version = document.version if complete else None
        if document.broken:  # the cell being edited does not parse, so the whole text does not either
            found = [*document.broken, *(each for each in found if each["code"] != "FX308")]
        self._publish(document, self._files.selected(document, found), complete)

    def read_ahead(self, document: Document, whole: bool = False) -> None:
        """Shows findings from reading the edited lines before the trace starts, unless the trace is as quick: in the
        class at the cursor, or in the ``whole`` file."""
        at = self._files.cursor(document)
        quick = document.took is not None and document.took < _SOON
        if not self._files.may_run(document) or not self._files.settings(document).enable or quick or not (whole or at):
            return
        found = document.read_only(None if whole or at is None else {at}, READ_AT_ONCE)
        found = [each for each in found if each["severity"] in ("error", "warning")]
        limits = {name: part.limit for name, part in self._parts(document, found).items()}
        document.ahead_version = document.version
        if found != document.ahead:
            document.ahead = found
            self._show_ahead(document, [limited(each, limits) for each in found], document.moved())

    def _show_ahead(self, document: Document, found: list[Finding], before: list[Finding]) -> None:
        """Shows findings ahead of the trace, with those from ``before`` the edit."""
        again = {(each["code"], each["span"] and each["span"]["line"]) for each in found}
        kept = [each for each in before if (each["code"], each["span"] and each["span"]["line"]) not in again]
        self._say(document, [*found, *kept], False)

    def play(self, document: Document) -> None:
        """Shows the findings with their new severity if the part of a class has changed."""
        record = document.shown_record
        if record is None or document.shown_text != document.text or not record["targets"]:
            return  # the next trace does it
        if document.play(self._files.parts(document, [target["name"] for target in record["targets"]])):
            record = document.shown_record or record
            self.show(document, findings(record), record)
            self._traced(document)

    def _laid(self, document: Document, record: Record, text: str | None = None) -> Record:
        """A record with the parts of its classes; with ``text`` (a whole trace) also with findings from reading in
        classes that were not judged."""
        parts = self._files.parts(document, [target["name"] for target in record["targets"]])
        if text is not None:
            document.parts = parts
            if not document.is_long and (names := unjudged(record)):
                record = with_read(record, names, read(text, document.path, names))
        return with_parts(record, parts)

    def _parts(self, document: Document, found: list[Finding]) -> Mapping[str, Part]:
        return self._files.parts(document, {each["target"] for each in found if each["target"] is not None})

    def _let_finish(self, document: Document) -> None:
        """Lets a trace whose findings are shown continue to its graphs, so that views are updated while the user
        types."""
        late = document.finishing is not None and not document.finishing.done()
        if not late and document.task is not None and not document.task.done() and document.diagnosed is not None:
            document.finishing, document.task = document.task, None
        document.diagnosed = None

    async def _refresh(self, document: Document, delay: float) -> None:
        if delay:
            await asyncio.sleep(delay)
        await self._files.configured.wait()
        await self._files.environment.read_project(document.folder, document.path)
        if self._looks_at(document):
            if not self._files.may_run(document):
                self.show(document, document.without_running())
                return
            document.changed_meanwhile.clear()
            if not self._files.environment.pool(document.folder).hello:
                self.read_ahead(document, whole=True)
            try:
                await self._trace(document)
            except Exception as error:  # user code may have produced an unreadable record
                log.exception("tracing %s failed", document.path)
                if not self._is_latest(document):
                    return
                said = f"FX Lens itself failed on this file: {type(error).__name__}: {str(error)[:200]}"
                self.show(document, [finding("FX199", "error", said)])
            if not self._is_latest(document):
                return
            if document.record is None:
                self._judged(document)
            # Files that changed since may have been read before the change.
            began = document.record_began
            for path, certain in document.changed_meanwhile.items():
                changed = certain or began is None or changed_since(path, began.of_files)
                if changed and self._concerns(path, document):
                    self.schedule(document, 0.0)
                    break
            return
        self.show(document, [])
        if document.record is not None:
            document.forget()
            self._traced(document)

    def _is_latest(self, document: Document, task: asyncio.Task | None = None) -> bool:
        """Whether a task, by default the running one, is the document's trace, and not an earlier one whose graphs are
        still to come (`_let_finish`): of the same version, if another file has changed."""
        return document.task is (task or asyncio.current_task()) and self._files.documents.get(document.uri) is document

    def _looks_at(self, document: Document) -> bool:
        enabled = self._files.settings(document).enable
        return enabled and (document.asked or not is_library(document.path, document.folder))

    def is_judging(self, document: Document) -> bool:
        """Whether the first trace of a document is running."""
        under_way = document.task is not None and not document.task.done()
        return document.record is None and under_way and self._files.may_run(document) and self._looks_at(document)

    def learn(self, document: Document) -> None:
        """Queries the workspace's knowledge of the document; new knowledge causes another trace."""
        document.to_learn = True
        if document.learning is None or document.learning.done():
            document.learning = self._tasks.start(self._learn_all(document))

    async def _learn_all(self, document: Document) -> None:
        while document.to_learn:
            document.to_learn = False
            await self._learn(document)

    async def _learn(self, document: Document) -> None:
        knowledge = self._files.environment.knowledge(document.folder)
        if knowledge is None or self._files.documents.get(document.uri) is not document:
            return
        text, path = document.text, module_path(document.path)
        knowledge.update(path, text)
        if (found := await knowledge.of_file(path)) is None:  # no index any more
            found = document.known or knowledge.recorded_for(path)
        await self._files.environment.read_project(document.folder, document.path)
        news = not known.same(document.known or {}, found)
        news = news and (document.known is None or not self._waits(document))
        document.known = found
        if self._files.documents.get(document.uri) is not document:
            return
        if document.text != text:
            knowledge.update(path, document.text)
        if news and self._files.may_run(document):
            self.schedule(document, 0.0)
        else:
            self.play(document)

    async def _trace(self, document: Document) -> None:
        first_time = document.known is None
        if first_time:
            self.learn(document)
            if document.learning is not None:
                # An index that is already built answers at once.
                await asyncio.wait([document.learning], timeout=_MOMENT)
        knowledge = self._files.environment.knowledge(document.folder)
        if document.known is None and knowledge is not None:
            await knowledge.read_recorded()
        digest = hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()
        if document.left_alone(digest):
            self.show(document, [said_left_alone(finding) for finding in document.shown])
            return
        self._status.began()
        # While the job runs, this process is idle.
        asyncio.get_running_loop().call_soon(self._files.parts, document, ())
        began = Moment.now()
        version, task = document.version, asyncio.current_task()
        ahead: asyncio.TimerHandle | None = None
        lenses: asyncio.TimerHandle | None = None
        learning: asyncio.TimerHandle | None = None

        def learn() -> None:
            nonlocal learning
            if learning is not None:
                learning.cancel()
                learning = None
                self.learn(document)

        # Reading the file again would use a processor that the findings need.
        if not first_time:
            learning = asyncio.get_running_loop().call_later(_MOMENT, learn)

        def judged(so_far: Callable[[], Record]) -> None:
            nonlocal lenses
            if lenses is None:
                lenses = asyncio.get_running_loop().call_later(_LENSES, show_judged, so_far)

        def show_judged(so_far: Callable[[], Record]) -> None:
            nonlocal lenses
            lenses = None
            if document.version == version and self._is_latest(document, task):
                document.judged = self._laid(document, so_far()), document.text
                self._judged(document)

        def first(record: Record) -> None:
            nonlocal ahead
            if ahead is not None:
                ahead.cancel()  # it would show less, perhaps after the full result
            ahead = asyncio.get_running_loop().call_later(_AHEAD, show_first, record)

        def show_first(record: Record) -> None:
            if document.version == version and self._is_latest(document, task):
                self._first(document, record)

        def diagnosed(record: Record) -> None:
            if ahead is not None:
                ahead.cancel()
            if document.version == version and self._is_latest(document, task):
                self._early(document, record, digest, began.clock)
            learn()

        try:
            pool, request = self._files.environment.pool(document.folder), self._files.request(document)
            self._interpreters.watch(document.folder)  # from here on: another one may come while this is traced
            record = await trace.run(pool, request, diagnosed, first, judged)
            learn()
        finally:
            self._status.ended()
            for timer in (ahead, lenses, learning):
                if timer is not None:
                    timer.cancel()
        if self._files.documents.get(document.uri) is not document:
            return
        if document.version == version and self._is_latest(document):
            self._finish(document, self._laid(document, record, request.text), digest, began)
        elif record["targets"] and document.finished < began.clock:
            document.keep(self._laid(document, record, request.text), request.text, version, began)
            self._traced(document)

    def _first(self, document: Document, record: Record) -> None:
        """Shows the models diagnosed so far, such as the class at the cursor, while others are still traced; for those,
        findings from reading stay."""
        record = self._laid(document, record)
        names = [target["name"] for target in record["targets"]]
        before = [each for each in document.moved() if each["target"] not in names]
        found = folded(record, findings(record))
        if document.ahead_version == document.version:
            left = [each for each in document.ahead if each["target"] not in names]
            limits = {name: part.limit for name, part in self._parts(document, left).items()}
            found += [limited(each, limits) for each in left]
        self._show_ahead(document, found, before)

    def _early(self, document: Document, record: Record, digest: str, began: float) -> None:
        """Shows the findings of a file whose models were all diagnosed, before their graphs arrive."""
        document.took = time.monotonic() - began
        if record["targets"]:
            record = self._laid(document, record, document.text)
            found = findings(record)
            document.count_crash(found, digest)
            self.show(document, found, record)
            document.diagnosed = document.version

    def _finish(self, document: Document, record: Record, digest: str, began: Moment) -> None:
        document.finished = began.clock
        found = findings(record)
        codes = {finding["code"] for finding in found}
        if "FX308" in codes and not record["targets"]:
            # Half-typed text: findings on unchanged lines stay, the other lines are only read.
            traced = [each for each in document.moved() if each["source"] != "syntax"]
            self.show(document, [*found, *traced, *document.read_only()])
            return
        document.count_crash(found, digest)
        unusable = not record["targets"] and bool(codes & {"FX185", "FX301", "FX306", "FX309", *ENDED})
        if unusable:
            found += [each for each in document.without_running() if each["code"] not in codes]
        # Without an interpreter, none of the shown results is valid any more.
        gone = "FX309" in codes and not self._files.environment.pool(document.folder).hello
        if not unusable or document.record is None or gone:
            document.keep(record, document.text, document.version, began)
        self.show(document, found, record)
        self._traced(document)
        self._status.update()
        settings = self._files.settings(document)
        own = [each for target in record["targets"] for each in target["findings"]]
        if settings.verify and any(each["fixes"] for each in own):
            document.verifying = self._tasks.start(self._verify(document, record))
        if settings.verify and not unusable:
            document.comparing = self._tasks.start(self._compare(document, record, document.verifying))
        if not unusable:
            self.capture(document, whole=document.saved_by_user)
        if settings.lowering == "hints" and not unusable:
            document.lowering = self._tasks.start(self._hint_lowering(document, document.comparing))

    async def _verify(self, document: Document, record: Record, captures: bool = False) -> None:
        pool, request = self._files.environment.pool(document.folder), self._files.request(document)

        def settled(number: int, fixes: Sequence[Fix]) -> None:
            document.lay_over(lambda record: with_fixes(record, {number: fixes}, captures))

        _, note = await verify.run(pool, request, record, _VERIFY_ROUNDS, settled, captures)
        if note:
            log.info(note)
        # An editor caches requested code actions until it receives new diagnostics.
        self.show_again(document)

    async def _compare(self, document: Document, record: Record, first: asyncio.Task[None] | None) -> None:
        """Shows where models differ from their graphs for reasons that no rule covers."""
        if first is not None:
            await asyncio.wait([first])
        pool, request = self._files.environment.pool(document.folder), self._files.request(document)
        found, note = await compare.run(pool, request, record)
        if note:
            log.info(note)
        if found:
            self._lay_over(document, lambda record: with_compared(record, found))

    async def _hint_lowering(self, document: Document, first: asyncio.Task[None] | None) -> None:
        """The operators that an engine would leave in PyTorch, shown last, since nothing depends on it."""
        if first is not None:
            await asyncio.wait([first])
        record = document.shown_record
        if record is None:
            return
        pool, request = self._files.environment.pool(document.folder), self._files.request(document)
        hinted, note = await lowering_hints.run(pool, request, record)
        if note:
            log.info(note)
        if found := {target["name"]: target["lowering"] for target in hinted["targets"] if target["lowering"]}:
            self._lay_over(document, lambda record: with_lowering(record, found))

    def _lay_over(self, document: Document, over: Callable[[Record], Record]) -> None:
        """Shows results of a later job in every view."""
        was_kept = document.record is document.shown_record
        overlaid = document.lay_over(over)
        if overlaid is not None:
            self.show(document, findings(overlaid), overlaid)
            if was_kept:
                self._traced(document)
                self._status.update()

    def capture(self, document: Document, whole: bool = False) -> None:
        """Runs torch.export and torch.compile on the class at the cursor, or on the ``whole`` file, unless done or
        running."""
        if document.capturing is not None and not document.capturing.done():
            if not whole:
                return
            document.capturing.cancel()
        document.capturing = self._tasks.start(self._capture(document, whole))

    async def _capture(self, document: Document, whole: bool) -> None:
        """Shows known results for this text, runs captures once the document is idle, and continues as the cursor
        moves."""
        record = document.shown_record
        captures = self._files.captures(document)
        if record is None or record is not document.record or not self._files.may_run(document) or not captures:
            return
        digests = self._digests(document, record, captures)
        pool, request = self._files.environment.pool(document.folder), self._files.request(document)

        def lay(name: str, captured: Captured) -> None:
            if document.proving is not None:
                document.proving.cancel()  # the numbers of its findings have changed
            self._lay_over(document, lambda record: with_captures(record, {name: captured}))

        for target in record["targets"]:
            answer = document.captured.get(digests.get(target["name"], ""))
            if answer is not None and not target["captures"]:
                lay(target["name"], answer)
        await asyncio.sleep(_REST)
        while names := self._left(document, digests, whole):
            found, note = await captures_job.run(pool, request, record, names, captures, lay)
            document.remember({digests[name]: captured for name, captured in found.items()})
            if note:
                log.info(note)
            if not found:
                break
        overlaid = document.shown_record
        if self._files.settings(document).verify and overlaid is not None and verify.left(overlaid, captures=True):
            document.proving = self._tasks.start(self._verify(document, overlaid, captures=True))

    def _left(self, document: Document, digests: Mapping[str, str], whole: bool) -> list[str]:
        """The models to run captures on now."""
        at = document.class_here()
        able = [name for name in digests if whole or name == at]
        return [name for name in able if digests[name] not in document.captured]

    def _digests(self, document: Document, record: Record, captures: Iterable[str]) -> dict[str, str]:
        """For each model that can be captured, a digest of everything that its results depend on, but for what is
        installed (`_again`)."""
        python = self._files.environment.launch(document.folder).python
        read = ((path, self._files.text_of(path)) for path in record["files"])
        # What is no text, such as a small array, counts by its time.
        texts = [document.text, *(str(state_of(path)) if text is None else text for path, text in read)]
        shared = hashlib.sha256("\0".join([*texts, *captures, python]).encode("utf-8", "surrogatepass"))
        found: dict[str, str] = {}
        for target in record["targets"]:
            # Without what other jobs have laid over it since.
            model = captures_job.model_of({**target, "findings": of_trace(target)})
            if model is not None:
                own = shared.copy()
                own.update(json.dumps([target["name"], model]).encode())
                found[target["name"]] = own.hexdigest()
        return found
