"""The server's side of a zygote: one forked child per job (Linux).

The zygote is never blocked by user code, so it does the killing; this side holds the deadlines and watches memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from fxlens.ipc import protocol, temporary
from fxlens.ipc.processes import is_running
from fxlens.ipc.protocol import Data, Json
from fxlens.ipc.request import Limits

from .launch import EXIT_SECONDS, START_SECONDS, Launch, awaited
from .outcome import Capture, OnEvent, Outcome, WorkerUnavailable
from .pipes import PipeCapture, enlarge
from .progress import Progress, steps_of
from .watch import TICK, Watch
from .zygote_process import ZygoteProcess

log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.04
_LOOKS = 20
_KILL_SECONDS = 8.0  # for a zygote to fork or kill a process
_CLEAR_SECONDS = 4.0  # for it to clear up after another one
_CLEAR_LOOK = 0.01


@dataclass
class _Running:
    """A forked process: waiting for its job, or running it."""

    number: int
    channel: socket.socket
    output: PipeCapture
    stacks: PipeCapture
    """What the process writes about its own end; in a separate pipe, since a loop that prints would garble it."""
    unsent: bytes = b""
    pid: int | None = None
    refused: str = ""
    """Why the fork failed."""
    path: str = ""
    """The file that it runs."""
    ended: asyncio.Future[int | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def send(self, data: bytes) -> None:
        """Sends as much as the channel accepts now, so that the process starts before the streams are ready; the rest
        is ``unsent``."""
        self.channel.setblocking(False)
        self.unsent += data
        with contextlib.suppress(OSError):  # its process may have ended, which the reader notices
            self.unsent = self.unsent[self.channel.send(self.unsent) :]


class ForkWorker:
    """Starts the zygote, and runs any number of jobs in forks of it.

    One fork is made ahead and warms up when idle, so that it is ready for the next job.

    ``hello`` describes the zygote's interpreter. Once ``alive`` is false the object is unusable. A branch has already
    imported ``modules``, which took ``memory`` more bytes, and ends with its ``base``; the process of a branch or a
    kept file is ``pid``.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.hello: Json = {}
        self.alive = False
        self.modules: frozenset[str] = frozenset()
        self.memory = 0
        self.base: ForkWorker | None = None
        self.pid: int | None = None
        self.before: Data | None = None
        """The message of the previous job, if a waiting process warms up with it."""
        self._compiler = ""
        """State of torch's compiler: ``coming`` while the zygote imports it and is busy; then ``there``."""
        self._numbers = itertools.count(1)
        self._running: dict[int, _Running] = {}
        self._spare: _Running | None = None
        self._spare_timer: asyncio.TimerHandle | None = None
        self._control: socket.socket | None = None
        self._process: ZygoteProcess | None = None
        self._greeting: asyncio.Future[Json] | None = None
        self._folder = ""
        self._tasks: set[asyncio.Task] = set()
        self._keepers: list[tuple[str, ForkWorker]] = []

    async def start(self) -> None:
        """Raises WorkerUnavailable with a sentence for the user if the interpreter cannot be used."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        self._folder = temporary.make()
        self._greeting = loop.create_future()
        try:
            self._process = await ZygoteProcess.start(self.launch, theirs.fileno(), self._folder)
        except BaseException:  # also if the job that started it is cancelled
            ours.close()
            temporary.remove(self._folder)
            raise
        finally:
            theirs.close()
        self.alive = True
        loop.add_reader(ours.fileno(), self._on_control)
        try:
            with awaited(self.launch.python):
                hello = await asyncio.wait_for(asyncio.shield(self._greeting), START_SECONDS)
        except asyncio.TimeoutError:
            await self.close()
            raise WorkerUnavailable(f"{self.launch.python} did not import torch within {START_SECONDS:.0f} s") from None
        except asyncio.CancelledError:
            await self.close()
            raise
        problem = hello.get("error") or protocol.mismatch(hello)
        if problem:
            await self.close()
            raise WorkerUnavailable(problem)
        self.hello = hello
        self._make_spare()

    async def branch(self, modules: list[str]) -> ForkWorker:
        """A worker whose forks have these modules imported already.  Raises WorkerUnavailable if that is not safe.

        It is a fork of this one's zygote, which is unchanged.
        """
        worker = self._asked({"do": "branch", "modules": modules}, [], frozenset(modules))
        try:
            hello = await asyncio.wait_for(asyncio.shield(worker._said()), START_SECONDS)
            if hello.get("error") or hello.get("threads") != 1:
                raise WorkerUnavailable(hello.get("error") or "an imported module starts threads")
        except BaseException as error:
            await worker.close()
            if isinstance(error, asyncio.TimeoutError):
                raise WorkerUnavailable(f"the imports took more than {START_SECONDS:.0f} s") from None
            raise
        worker.hello, worker.memory = self.hello, hello["memory"]
        worker._make_spare()
        return worker

    def import_compiler(self) -> None:
        """From now on jobs find torch's compiler imported."""
        if self._compiler or not self.alive or self._control is None:
            return
        self._compiler = "coming"
        spare, self._spare = self._spare, None
        self._discard(spare)
        try:
            self._control.send(json.dumps({"do": "compiler"}).encode())
        except OSError:
            self._lost()
            return
        self._make_spare_soon()

    async def keep(self, message: Data, limits: Limits) -> ForkWorker:
        """A worker whose forks have a file executed and its models constructed.  Raises WorkerUnavailable if that
        fails, or exceeds the limits."""
        request, output = os.memfd_create("fxlens-request"), os.memfd_create("fxlens-output")
        try:
            with open(os.dup(request), "wb") as file:
                file.write(json.dumps(message).encode())
            os.lseek(request, 0, os.SEEK_SET)
            worker = self._asked({"do": "keep"}, [request, output], self.modules)
            self._keepers.append((str(message["path"]), worker))
        finally:
            os.close(request)
            os.close(output)
        said, watch = worker._said(), Watch(limits, Capture())
        try:
            while not said.done():
                await asyncio.wait({said}, timeout=TICK)
                if end := watch.look(worker.pid):
                    raise WorkerUnavailable(f"keeping the file was stopped: {end}")
            hello = said.result()
            if hello.get("error") or hello.get("threads") != 1:
                raise WorkerUnavailable(hello.get("error") or "the file starts threads")
        except BaseException:
            await worker.close()
            raise
        worker.hello, worker.before = self.hello, message
        worker._make_spare()
        return worker

    def _said(self) -> asyncio.Future[Json]:
        assert self._greeting is not None
        return self._greeting

    def _asked(self, request: dict[str, Any], fds: list[int], modules: frozenset[str]) -> ForkWorker:
        """Requests a worker from this one's zygote."""
        if self._control is None:
            raise WorkerUnavailable("the worker has ended")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        worker = ForkWorker(self.launch)
        worker._control, worker.alive = ours, True
        worker.modules, worker.base = modules, self
        worker._folder = temporary.make()
        worker._greeting = asyncio.get_running_loop().create_future()
        try:
            data = json.dumps({**request, "folder": worker._folder}).encode()
            socket.send_fds(self._control, [data], [theirs.fileno(), *fds])
        except OSError as error:
            ours.close()
            temporary.remove(worker._folder)
            raise WorkerUnavailable(f"the worker does not take the request: {error}") from None
        finally:
            theirs.close()
        asyncio.get_running_loop().add_reader(ours.fileno(), worker._on_control)
        return worker

    async def run(self, message: Data, limits: Limits, on_event: OnEvent) -> Outcome:
        """One job in one fresh process.  Cancelling the task kills the process."""
        job, self._spare = self._spare, None
        if job is None or job.ended.done():
            self._discard(job)
            job = self._fork()
        if job is None:
            return Outcome("lost")
        job.path = str(message["path"])
        job.send(protocol.encode(message))
        progress = Progress(Watch(limits, job.stacks.capture, steps_of(message)))
        watching = asyncio.create_task(self._watch(job, progress))
        try:
            reader, writer = await asyncio.open_unix_connection(sock=job.channel)
            try:
                writer.write(job.unsent)
                await progress.follow(reader, on_event)
            finally:
                # At once: closing it would wait until all is sent, and the socket is closed before that.
                writer.transport.abort()
            if progress.end is None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(job.ended), EXIT_SECONDS)
            if job.refused:
                raise WorkerUnavailable(f"no process can be started for it: {job.refused}")
            status = job.ended.result() if job.ended.done() else None
            end = progress.end or ("exit" if status is not None else "lost")
            printed, stacks = job.output.text(), job.stacks.text()
            return Outcome(end, status, printed, progress.step, stacks, progress.refused)
        finally:
            watching.cancel()
            self._discard(job)
            self._make_spare_soon()

    @property
    def busy(self) -> bool:
        """Whether jobs run in it."""
        return any(job is not self._spare and not job.ended.done() for job in self._running.values())

    def processes_of(self, path: str) -> set[int | None]:
        """The processes that execute a file or have done so, also those that are being ended."""
        self._keepers = [each for each in self._keepers if each[1].alive or is_running(each[1].pid)]
        known = [(job.path, job.pid) for job in self._running.values()]
        known += [(kept, worker.pid) for kept, worker in self._keepers]
        return {pid for each, pid in known if each == path}

    def _make_spare_soon(self) -> None:
        """Make a spare after a short idle time: in a burst of edits, spares would delay the jobs."""
        if self._spare_timer is not None:
            self._spare_timer.cancel()
        self._spare_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._make_spare)

    def _make_spare(self) -> None:
        if self.launch.ahead and (self._spare is None or self._spare.ended.done()):
            self._discard(self._spare)
            self._spare = self._fork(warm=True)

    def _fork(self, warm: bool = False) -> _Running | None:
        """A new process that waits for its job, optionally warming up first; None if the zygote is gone."""
        if not self.alive or self._control is None:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output_read, output_write = os.pipe()
        stacks_read, stacks_write = os.pipe()
        enlarge(output_write)
        job = _Running(next(self._numbers), ours, PipeCapture(output_read), PipeCapture(stacks_read))
        self._running[job.number] = job
        try:
            folder = temporary.of_job(self._folder, job.number)
            request = json.dumps({"do": "run", "job": job.number, "warm": warm, "folder": folder}).encode()
            socket.send_fds(self._control, [request], [theirs.fileno(), output_write, stacks_write])
        except OSError:
            self._lost()
        finally:
            theirs.close()
            os.close(output_write)
            os.close(stacks_write)
        if not self.alive:
            self._discard(job)
            return None
        if warm and self.before is not None:
            with contextlib.suppress(protocol.TooLarge):
                job.send(protocol.encode({"before": self.before}))
        return job

    def _discard(self, job: _Running | None) -> None:
        """Ends the process of a job and closes its pipes."""
        if job is None:
            return
        self._kill(job)
        job.output.close()
        job.stacks.close()
        job.channel.close()
        if job.ended.done():
            self._running.pop(job.number, None)

    async def close(self) -> None:
        """Ends the zygote and every job in it."""
        for _, keeper in [*self._keepers]:
            if keeper.alive:
                await keeper.close()  # only its own base knows what it leaves
        if self._spare_timer is not None:
            self._spare_timer.cancel()
        spare, self._spare = self._spare, None
        self._discard(spare)
        looks = 0
        while self.base is not None and self.base.alive and self.alive and self.pid is None and looks < _LOOKS:
            looks += 1  # it has just been asked for
            await asyncio.sleep(TICK)
        self._kill_branch()  # busy with user code or an import, it may not notice the end of its parent
        self._lost()
        if self._process is not None:
            await self._process.end()
        looks = 0
        while self.base is not None and self.base.alive and os.path.isdir(self._folder):
            if (looks := looks + 1) * _CLEAR_LOOK > _CLEAR_SECONDS:
                break  # otherwise the base's zygote removes it, once it has read what jobs have noted there
            await asyncio.sleep(_CLEAR_LOOK)
        await asyncio.to_thread(temporary.remove, self._folder)

    def log(self) -> str:
        """The last lines that the zygote itself wrote to its standard error."""
        return self._process.log() if self._process is not None else ""

    async def _watch(self, job: _Running, progress: Progress) -> None:
        """Kills the job if a step takes too much time, memory or processes."""
        looks = 0
        while progress.end is None:
            await asyncio.sleep(TICK)
            looks += job.pid is None
            if looks * TICK > self._patience():
                self._end_zygote()
                return
            progress.end = progress.end or progress.watch.look(job.pid)
        self._kill(job)
        try:
            await asyncio.wait_for(asyncio.shield(job.ended), self._patience())
        except asyncio.TimeoutError:
            self._end_zygote()

    def _patience(self) -> float:
        """Seconds within which a healthy zygote answers."""
        return START_SECONDS if self._compiler == "coming" else _KILL_SECONDS

    def _kill(self, job: _Running) -> None:
        if job.ended.done() or self._control is None:
            return
        try:
            self._control.send(json.dumps({"do": "kill", "job": job.number}).encode())
        except OSError:
            self._lost()

    def _end_zygote(self) -> None:
        """End a zygote that does not answer, perhaps stopped by user code, with its jobs and branches."""
        if self._process is not None:
            self._process.kill()
        self._kill_branch()
        self._lost()

    def _kill_branch(self) -> None:
        """If this is a branch, or keeps a file."""
        if self.pid is not None and self._control is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)

    def _on_control(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        try:
            self._take(json.loads(data))
        except (LookupError, TypeError, ValueError, AttributeError):  # written by code of a kept file
            log.warning("a worker sent what cannot be read")
            self._lost()

    def _take(self, message: Json) -> None:
        if "hello" in message:
            if self._greeting and not self._greeting.done():
                self._greeting.set_result(message["hello"])
            return
        if "compiler" in message:
            self._compiler = "there"
            return
        if "branch" in message:
            if self.base is None or not isinstance(message["branch"], int) or message["branch"] <= 1:
                raise ValueError("no branch")
            self.pid = message["branch"]
            return
        job = self._running.get(message["job"])
        if job is None:
            return
        if "pid" in message:
            job.pid = message["pid"]
        else:
            self._running.pop(job.number, None)
            job.refused = message.get("error", "")
            if not job.ended.done():
                job.ended.set_result(message["exit"])

    def _lost(self) -> None:
        """Handle the end of the zygote: it ends its jobs when its socket is closed."""
        self.alive = False
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        if self._greeting and not self._greeting.done():
            self._spawn(self._explain())
        for job in self._running.values():
            if not job.ended.done():
                job.ended.set_result(None)
        self._running.clear()
        if self._process is not None:
            self._spawn(self._process.end_orphans())

    async def _explain(self) -> None:
        """Why the zygote ended before its hello."""
        reason = "the process ended while it imported"
        if self._process is not None:
            reason = await self._process.why_it_ended()
        if not self._said().done():
            self._said().set_result({"error": reason})

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
