"""Jobs that construct a model with data (lower, bench, estimate, stages, values, passes): one runs at a time and others
are refused meanwhile; it reports progress and can be cancelled.

The last result of passes stays in its process, to be saved or exported.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types

from fxlens import jobs
from fxlens.host.model_job import ModelJob, OnProgress
from fxlens.host.outcome import Failed
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Request

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_KEPT_SECONDS = 600.0

Result = TypeVar("Result")


class NoAnswer(Exception):
    """Why a request has no result; the text is for the user."""


@dataclass(frozen=True)
class Done:
    """A result, the text that was run, and its trace; ``kept`` is the number by which ``ask`` finds its process."""

    result: Data
    request: Request
    trace: float | None
    kept: str | None


class ModelJobs:
    """Runs one job at a time: two would distort each other's times, and share one machine's memory."""

    def __init__(self, ls: FxLensServer) -> None:
        self._ls = ls
        self._doing: str | None = None
        self._kept: tuple[str, str, ModelJob] | None = None
        self._numbers = map(str, itertools.count(1))
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def document(self, uri: str) -> Document:
        """The open document; raises NoAnswer if its models may not run."""
        document = self._ls.session.documents.get(uri)
        if document is None:
            raise NoAnswer("FX Lens has not seen this file yet.")
        if (reason := self._ls.session.why_not_run(document)) is not None:
            raise NoAnswer(reason)
        return document

    async def run(
        self,
        kind: str,
        document: Document,
        target: str | None,
        options: Data,
        token: Any,
        keep: bool = False,
    ) -> Done:
        """Runs one job; with ``keep`` its process is kept for ``ask``.  Raises NoAnswer."""
        doing = f"{jobs.named(kind).TITLE} {target or document.path}"
        launch, request = self._ls.session.whole(document)
        trace = document.trace_of_text
        job = ModelJob(launch, kind, request, target, options)
        progress = self._begin(doing, token)
        try:
            await self.release()
            result = await self._finished(job.result(progress.report), progress)
        except BaseException:
            await job.close()
            raise
        finally:
            self._end(progress)
        if keep and job.waits:
            return Done(result, request, trace, self._keep(document.uri, job))
        await job.close()
        return Done(result, request, trace, None)

    async def ask(self, kept: str, request: Data, token: Any) -> Data | None:
        """The answer of an earlier result's process; None if that process has ended.  Raises NoAnswer."""
        if self._kept is None or self._kept[0] != kept or not self._kept[2].waits:
            return None
        job = self._kept[2]
        progress = self._begin("Saving", token)
        self._stop_timer()
        try:
            return await self._finished(job.ask(request), progress)
        finally:
            self._end(progress)
            self._start_timer()

    async def beside(self, doing: str, token: Any, answer: Callable[[OnProgress], Awaitable[Result]]) -> Result:
        """The answer of a job that does not wait for others.  Raises NoAnswer."""
        progress = _Progress(self._ls, token, doing)
        try:
            return await self._finished(answer(progress.report), progress)
        finally:
            progress.end()

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """Refuses other jobs inside. Raises NoAnswer if one is running."""
        progress = self._begin(doing, None)
        try:
            yield
        finally:
            self._end(progress)

    async def release(self, uri: str | None = None) -> None:
        """Ends the kept process; with a document, only if it is of that document."""
        if self._kept is not None and uri in (None, self._kept[1]):
            job, self._kept = self._kept[2], None
            self._stop_timer()
            await job.close()

    def _keep(self, uri: str, job: ModelJob) -> str:
        number = next(self._numbers)
        self._kept = (number, uri, job)
        self._start_timer()
        return number

    def _start_timer(self) -> None:
        if self._kept is not None:
            self._timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._time_is_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        task = asyncio.get_running_loop().create_task(self.release())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _begin(self, doing: str, token: Any) -> _Progress:
        if self._doing is not None:
            raise NoAnswer(f"{self._doing} is still running. Cancel it, or wait until it has finished.")
        progress = _Progress(self._ls, token, doing)
        self._doing = doing
        return progress

    def _end(self, progress: _Progress) -> None:
        self._doing = None
        progress.end()

    async def _finished(self, answer: Awaitable[Result], progress: _Progress) -> Result:
        task = asyncio.ensure_future(answer)
        progress.cancels(task)
        try:
            return await task
        except Failed as error:
            raise NoAnswer(str(error)) from None
        except asyncio.CancelledError:
            task.cancel()
            if progress.cancelled:
                raise NoAnswer("cancelled") from None
            raise


class _Progress:
    """Reports to the client's token, if there is one.  Raises NoAnswer if it is none."""

    def __init__(self, ls: FxLensServer, token: Any, title: str) -> None:
        if not isinstance(token, (str, int, type(None))):
            raise NoAnswer("A workDoneToken is a text or a whole number.")
        self.ls, self.token = ls, token
        self.cancelled = False
        if token is not None:
            begin = types.WorkDoneProgressBegin(title=title, cancellable=True, percentage=0)
            ls.work_done_progress.begin(token, begin)

    def cancels(self, job: asyncio.Future) -> None:
        """End the job if the client cancels the progress."""
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
