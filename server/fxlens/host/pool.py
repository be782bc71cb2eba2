"""Keeps one worker alive for an environment, and bounds how many jobs run at a time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from fxlens.ipc.processes import descendants_of, is_running
from fxlens.ipc.protocol import Data, Json
from fxlens.ipc.request import Limits

from .branches import Branches
from .forked import ForkWorker
from .installed import Installed
from .kept import KeptFiles
from .launch import Launch
from .outcome import Event, OnEvent, Outcome, WorkerUnavailable
from .spawned import SpawnWorker

CAPTURES = ["fxlens.worker.capturing"]
"""Modules that the zygote for torch.export and torch.compile imports in addition."""
_COMPILER = re.compile(r"\b(torchvision|timm|transformers|torch\.compile|torch\._dynamo)\b")
"""Files that use these will need torch's compiler."""
_SLOW_SECONDS = 1.5
_SLOW_JOBS = 6
_SLOW_BEHIND = 2  # background jobs
_MAX_BACKOFF = 60.0
_TRIES = 3
"""Of a file that may need what an earlier process of it still holds."""
_OTHERS_SECONDS = 3.0
_LOOK_SECONDS = 0.01
_RETIRE_LOOK = 0.2


class _Compiler:
    """Passes a job's events on, except the one that reports the import of torch's compiler."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self.imported = False

    def __call__(self, event: Event) -> None:
        if event.get("event") == "compiler":
            self.imported = True
        else:
            self._on_event(event)


class _Slots:
    """``count`` jobs run at a time. One that has run for a while gives up its slot and continues beside the others, so
    that a file in an endless loop does not block the rest; there are ``slow`` such jobs at most."""

    def __init__(self, count: int, slow: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._all = asyncio.Semaphore(count + slow)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        async with self._all:
            await self._free.acquire()
            held = True

            def give_up() -> None:
                nonlocal held
                if held:
                    held = False
                    self._free.release()

            timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, give_up)
            try:
                yield
            finally:
                timer.cancel()
                give_up()


async def _end_of(pids: set[int | None]) -> None:
    """Waits for the end of processes, within a limit."""
    until = time.monotonic() + _OTHERS_SECONDS
    await asyncio.sleep(_LOOK_SECONDS)
    while any(map(is_running, pids)) and time.monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)


class Pool:
    """Jobs for one ``Launch``.

    ``slots`` jobs run at a time.  Background jobs have their own slot, and so have those that run torch.export and
    torch.compile; these are forks of a second zygote, which is started with the first of them. Files that will be
    traced ``again`` are kept executed. If each file has its jobs ``once``, no process is made ahead, and background
    jobs have as many slots as the others, since all of them are waited for.
    """

    def __init__(
        self,
        launch: Launch,
        slots: int = 2,
        again: Callable[[str], bool] = lambda path: True,
        closed: bool = False,
        once: bool = False,
    ) -> None:
        self.launch, self.slots = replace(launch, ahead=not once), slots
        self._traces = _Slots(max(1, slots), _SLOW_JOBS)
        self._once = once
        self._jobs = 0
        self._background = _Slots(max(1, slots) if once else 1, _SLOW_BEHIND)
        self._asking = _Slots(1, _SLOW_BEHIND)
        self._worker: ForkWorker | SpawnWorker | None = None
        self._capturing: ForkWorker | None = None
        self._starting: asyncio.Task[ForkWorker | SpawnWorker | None] | None = None
        self._starting_captures: asyncio.Task[ForkWorker | str] | None = None
        self._closed = closed
        self.installed: Installed | None = None
        """What was installed when its worker was started last; None before."""
        self._failures = 0
        self._retry_at = 0.0
        self._reason = ""
        self.started_workers = 0
        self.branches, self.capture_branches = Branches(once), Branches(once)
        self.kept = KeptFiles((lambda path: False) if once else again)

    @property
    def hello(self) -> Json:
        """The running worker's description of its interpreter: ``python``, ``torch``, ``executable``; empty before it
        runs."""
        return self._worker.hello if self._worker is not None else {}

    @property
    def problem(self) -> str:
        """Why there is no worker, or an empty string."""
        return self._reason

    async def run(
        self, message: Data, limits: Limits, on_event: OnEvent, background: bool = False, captures: bool = False
    ) -> Outcome:
        """Runs one job; a ``background`` one is not waited for, and one with ``captures`` needs torch's compiler.
        Raises WorkerUnavailable if no worker can be started; this is remembered for a while and not retried each time.
        """
        message = {**message, "background": (background or captures) and not self._once}
        slots = self._asking if captures else self._background if background else self._traces
        self._jobs += 1
        try:
            async with slots.one():
                return await self._run(message, limits, on_event, captures)
        finally:
            self._jobs -= 1

    async def _run(self, message: Data, limits: Limits, on_event: OnEvent, captures: bool) -> Outcome:
        base = await self.ready(str(message["text"]))
        compiler = _Compiler(on_event)
        if message["kind"] in ("trace", "names"):
            run = self.kept.run if message["kind"] == "trace" else self.kept.ask
            kept = await run(message, limits, compiler)
            if kept is not None:
                if compiler.imported:
                    base.import_compiler()
                    self.kept.forget(str(message["path"]))  # each edit would import the compiler
                return kept
        branches = self.branches
        if captures and isinstance(base, ForkWorker):
            base, branches = await self._for_captures(base), self.capture_branches
        worker = base
        if isinstance(base, ForkWorker):
            worker = branches.worker_for(str(message["path"]), base, str(message["text"]))

        imported: list[str] | None = None
        taken = False

        def observe(event: Event) -> None:
            nonlocal imported, taken
            if event.get("event") == "end":
                imported = list(dict.fromkeys(event["third_party"]))
            taken = taken or event.get("event") == "taken"
            compiler(event)

        others = self._others(str(message["path"]))
        for more in range(_TRIES - 1 if others else 0, -1, -1):
            taken = False
            outcome = await worker.run({**message, "contested": more > 0}, limits, observe)
            if not taken or outcome.end != "done":
                break
            others |= self._others(str(message["path"]))
            await _end_of(others)
        if not captures and (compiler.imported or (outcome.end == "timeout" and "_dynamo" in outcome.stacks)):
            base.import_compiler()
            with_it = ("torch", "numpy")
            imported = [each for each in imported or () if each.split(".")[0] not in with_it] or None
        if imported is not None and isinstance(base, ForkWorker) and isinstance(worker, ForkWorker):
            branches.learn(str(message["path"]), imported, base, worker, str(message["text"]))
        for again in (False, True):
            if not (outcome.early or (outcome.end == "lost" and not worker.alive)):
                break
            # The worker itself died, or its process before this job started: try once more.
            if again and outcome.end == "lost" and not captures and self.launch.forks and not self._closed:
                outcome = await self._alone(message, limits, compiler)
                break
            if again and worker is self._worker:
                await self._end()  # user code may have broken its ability to fork
            worker = await self.ready()
            if captures and isinstance(worker, ForkWorker):
                worker = await self._for_captures(worker)
            outcome = await worker.run(message, limits, compiler)
        traced = message["kind"] == "trace" and outcome.end == "done"
        if traced and isinstance(worker, ForkWorker):
            self.kept.learn(message, limits, worker)
        return outcome

    async def _alone(self, message: Data, limits: Limits, on_event: OnEvent) -> Outcome:
        """Runs a job in a worker of its own: the job of another file may end the worker that they share."""
        worker = ForkWorker(self.launch)
        try:
            await worker.start()
            return await worker.run(message, limits, on_event)
        finally:
            await worker.close()

    def _others(self, path: str) -> set[int | None]:
        """Other processes that execute a file or have done so, most of which are being ended: they may hold what it
        takes. None for one whose number is not known yet."""
        workers = [each for each in (self._worker, self._capturing) if each is not None]
        found = {
            pid for worker in (*workers, self.branches, self.capture_branches) for pid in worker.processes_of(path)
        }
        return found.union(*(descendants_of(pid) for pid in found if pid is not None))

    async def ready(self, text: str = "") -> ForkWorker | SpawnWorker:
        """The worker, started if necessary, as a file with this text needs it. The start continues if the job that
        began it is cancelled, since the next one needs it too."""
        while self._worker is None or not self._worker.alive:
            if self._closed:
                raise WorkerUnavailable("its interpreter is no longer used")
            if time.monotonic() < self._retry_at:
                raise WorkerUnavailable(self._reason)
            starting = self._begin(text)
            await asyncio.wait({starting})
            if not starting.cancelled() and (worker := starting.result()) is not None:
                return worker
        return self._worker

    def begin(self, text: str) -> None:
        """Start the worker for a coming job on a file with this text."""
        if self._worker is None and not self._closed and time.monotonic() >= self._retry_at:
            self._begin(text)

    def _begin(self, text: str) -> asyncio.Task[ForkWorker | SpawnWorker | None]:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start(text))
        return self._starting

    async def _start(self, text: str) -> ForkWorker | SpawnWorker | None:
        """A new worker; None if the interpreter cannot be used, or the pool was closed meanwhile."""
        if self._worker is not None:
            await self._worker.close()
        if not self._once:  # beside the start, which takes longer
            looking = asyncio.get_running_loop().run_in_executor(None, Installed, self.launch.python)
            looking.add_done_callback(self._looked)
        launch = replace(self.launch, compiler=_COMPILER.search(text) is not None)
        worker = ForkWorker(launch) if launch.forks else SpawnWorker(launch)
        try:
            await worker.start()
        except WorkerUnavailable as error:
            self._failures += 1
            self._retry_at = time.monotonic() + min(2.0**self._failures, _MAX_BACKOFF)
            self._reason = str(error)
            return None
        if self._starting is not asyncio.current_task():
            await worker.close()
            return None
        self._worker, self._failures, self._reason = worker, 0, ""
        self.started_workers += 1
        return worker

    def _looked(self, looking: asyncio.Future[Installed]) -> None:
        if not looking.cancelled():
            self.installed = looking.result()

    async def _for_captures(self, base: ForkWorker) -> ForkWorker:
        """The zygote with torch's compiler, forked from the other one if necessary. Its import continues if the job
        that began it is cancelled: it takes seconds, and the next one needs it too."""
        while (known := self._capturing) is None or not known.alive or known.base is not base:
            if not base.alive:
                raise WorkerUnavailable("the worker has ended")
            starting = self._starting_captures
            if starting is None or starting.done():
                starting = asyncio.get_running_loop().create_task(self._start_captures(base))
                self._starting_captures = starting
            await asyncio.wait({starting})
            if starting.cancelled():
                raise WorkerUnavailable("its interpreter is no longer used")
            if isinstance(reason := starting.result(), str):
                raise WorkerUnavailable(reason)
        return known

    async def _start_captures(self, base: ForkWorker) -> ForkWorker | str:
        """The zygote for captures, or why there is none."""
        await self._close_captures()
        try:
            self._capturing = await base.branch(CAPTURES)
        except WorkerUnavailable as error:
            return str(error)
        return self._capturing

    def captures_memory(self) -> int | None:
        """Bytes that the zygote for captures uses in addition; None while there is none."""
        known = self._capturing
        return None if known is None or not known.alive else known.memory

    async def _end_captures(self) -> None:
        starting, self._starting_captures = self._starting_captures, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait({starting})
        await self._close_captures()

    async def _close_captures(self) -> None:
        await self.capture_branches.close()
        known, self._capturing = self._capturing, None
        if known is not None:
            await known.close()

    async def renew(self) -> None:
        """Ends the worker if something else is installed now than when it was started: it has imported that."""
        if (known := self.installed) is not None and await asyncio.to_thread(known.look) != known.state:
            await self.restart()

    async def restart(self) -> None:
        """Ends the worker; the next job starts another one, regardless of earlier failures."""
        await self._end()
        self._failures, self._retry_at, self._reason = 0, 0.0, ""

    async def close(self) -> None:
        """Ends the worker for good: a job that is running then is not retried."""
        self._closed = True
        await self._end()

    async def retire(self) -> None:
        """Ends the worker for good once its jobs are done."""
        try:
            while self._jobs:
                await asyncio.sleep(_RETIRE_LOOK)
        finally:
            await self.close()

    async def _end(self) -> None:
        starting, self._starting = self._starting, None
        worker, self._worker = self._worker, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait({starting})
        await self._end_captures()
        await self.kept.close()
        await self.branches.close()
        if worker is not None:
            await worker.close()

    def log(self) -> str:
        return self._worker.log() if self._worker is not None else ""
