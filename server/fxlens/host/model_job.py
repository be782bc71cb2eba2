"""A job that constructs and runs one model (lower, bench, estimate, apply_passes), in a separate process with all
threads and devices.

The command line and the language server both use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fxlens.ipc.protocol import Data, Json
from fxlens.ipc.request import Request

from .failures import explain
from .launch import Launch
from .outcome import Failed, WorkerUnavailable
from .spawned import SpawnWorker

OnProgress = Callable[[str, float], None]


class ModelJob:
    """The process of one job.  It ends with its result or, if its kind waits for further requests, when it is
    closed."""

    def __init__(self, launch: Launch, kind: str, request: Request, target: str | None, options: Data) -> None:
        self._request = request
        self._worker = SpawnWorker(launch)
        self._message = request.message(kind, target=target, options=options)
        self._more: asyncio.Queue[Data] = asyncio.Queue()
        self._answers: asyncio.Queue[Data | Failed] = asyncio.Queue()
        self._on_progress: OnProgress = lambda text, fraction: None
        self._task: asyncio.Task[None] | None = None

    async def result(self, on_progress: OnProgress) -> Data:
        """Starts the process; its result.

        Raises:
            Failed: it was refused, or its process died.
        """
        self._on_progress = on_progress
        self._task = asyncio.get_running_loop().create_task(self._run())
        return await self._answer()

    async def ask(self, request: Data) -> Data:
        """The answer to a further request.  Raises Failed as ``result`` does, and if the process has ended. Cancelling
        the task ends the process: its late answer would be taken for the next one."""
        if not self.waits:
            raise Failed("the process of this result has ended")
        self._more.put_nowait(request)
        try:
            return await self._answer()
        except asyncio.CancelledError:
            await self.close()
            raise

    @property
    def waits(self) -> bool:
        """Whether the process waits for further requests."""
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """Ends the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._worker.close()

    async def _answer(self) -> Data:
        answer = await self._answers.get()
        if isinstance(answer, Failed):
            raise answer
        return answer

    async def _run(self) -> None:
        try:
            await self._worker.start()
            outcome = await self._worker.run(self._message, self._request.limits, self._take, self._more)
            if outcome.end != "done":
                self._answers.put_nowait(Failed(explain(outcome, self._request)["message"]))
        except WorkerUnavailable as error:
            self._answers.put_nowait(Failed(str(error)))
        finally:  # wake a task that still waits for an answer
            self._answers.put_nowait(Failed("its process ended without a result"))

    def _take(self, event: Json) -> None:
        kind = event.get("event")
        if kind == "progress":
            self._on_progress(event["text"], event["fraction"])
        elif kind == "result":
            self._answers.put_nowait(event["result"])
        elif kind in ("refused", "failed"):
            self._answers.put_nowait(Failed(event["message"]))


async def run(
    launch: Launch,
    kind: str,
    request: Request,
    target: str | None,
    options: Data,
    on_progress: OnProgress,
) -> Data:
    """The result of a job that has one request.  Cancelling the task ends the process.  Raises Failed."""
    job = ModelJob(launch, kind, request, target, options)
    try:
        return await job.result(on_progress)
    finally:
        await job.close()
