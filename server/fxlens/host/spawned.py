"""The server's side without fork: each job gets a fresh process that has imported torch already.

For macOS, where forking with torch loaded is not safe, and Windows, which has no fork; selectable everywhere. One spare
process waits; taking it starts the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import replace

from fxlens.ipc import processes, protocol, temporary
from fxlens.ipc.protocol import Data, Json
from fxlens.ipc.request import Limits

from . import orphans
from .launch import EXIT_SECONDS, START_SECONDS, Launch, awaited, ended_at_start
from .outcome import Capture, OnEvent, Outcome, WorkerUnavailable
from .pipes import PipeCapture
from .progress import Progress, receive, steps_of
from .watch import TICK, Watch

_LOOK = 0.005
_END_SECONDS = 0.3
"""The most that a job waits for its own end, since trackers of shared memory may take seconds, or for the last messages
of a process that has ended."""


class _Lines:
    """The pipes of a process besides its standard streams: a pipe for its stacks, which must not be mixed with its
    output, and one that closes when this server ends. Windows cannot pass them on, so both are omitted there."""

    def __init__(self) -> None:
        self.stacks: PipeCapture | None = None
        self.passed: tuple[int, ...] = ()
        self._lifeline = -1
        if os.name == "posix":
            stacks, stacks_write = os.pipe()
            lifeline_read, self._lifeline = os.pipe()
            self.stacks = PipeCapture(stacks)
            self.passed = (stacks_write, lifeline_read)

    def pass_on(self) -> None:
        """Close our copies of the process's ends, once it has started or failed to."""
        passed, self.passed = self.passed, ()
        for fd in passed:
            os.close(fd)

    def close(self) -> None:
        self.pass_on()
        if self.stacks is not None:
            self.stacks.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


class _Spare:
    """A process that has sent its hello, or is about to."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str, lines: _Lines) -> None:
        self.process = process
        self.folder = folder
        self.lines = lines
        self.capture = Capture()
        self.output = asyncio.ensure_future(self._drain())

    async def hello(self, python: str) -> Json:
        try:
            with awaited(python):
                message = await asyncio.wait_for(self.receive(), START_SECONDS)
        except asyncio.TimeoutError:
            raise WorkerUnavailable(f"{python} did not import torch within {START_SECONDS:.0f} s") from None
        except protocol.ProtocolError as error:
            raise WorkerUnavailable(f"{python} is not a Python that FX Lens can use: {error}") from None
        if message is None:
            with contextlib.suppress(asyncio.TimeoutError):  # it may have closed its output only
                await asyncio.wait_for(self.process.wait(), EXIT_SECONDS)
            await asyncio.wait({self.output}, timeout=EXIT_SECONDS)
            raise WorkerUnavailable(ended_at_start(python, self.capture.text(), self.process.returncode))
        return message["hello"]

    async def receive(self) -> Json | None:
        assert self.process.stdout is not None
        return await receive(self.process.stdout)

    async def _drain(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(65536):
            self.capture.feed(data)

    async def end(self) -> None:
        kill_tree(self.process)
        until = time.monotonic() + EXIT_SECONDS
        # Its `wait` would also wait for the ends of its pipes, which an orphan may hold.
        while self.process.returncode is None and time.monotonic() < until:
            await asyncio.sleep(_LOOK)
        await orphans.end(self.process.pid)
        processes.kill_group(self.process.pid)
        self.output.cancel()
        self.lines.close()
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()
        await asyncio.to_thread(temporary.remove, self.folder)


class _Running:
    """A process that runs a job."""

    def __init__(self, spare: _Spare, message: Data, limits: Limits, waits: bool) -> None:
        self._spare = spare
        self._message = message
        self._stacks = spare.lines.stacks
        capture = self._stacks.capture if self._stacks else spare.capture
        self._progress = Progress(Watch(limits, capture, steps_of(message)), waits)

    async def do(self, on_event: OnEvent) -> Outcome:
        process, progress = self._spare.process, self._progress
        assert process.stdout is not None
        self._send(self._message)
        # What it has forked may hold its channel open beyond its end.
        following = asyncio.ensure_future(progress.follow(process.stdout, on_event))
        watching = asyncio.ensure_future(self._watch_over())
        try:
            await asyncio.wait({following, watching}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            following.cancel()
            watching.cancel()
        if progress.end is None:
            until = time.monotonic() + EXIT_SECONDS
            while process.returncode is None and time.monotonic() < until:
                await asyncio.sleep(_LOOK)
            progress.end = "exit" if process.returncode is not None else "lost"
        if progress.end != "done":
            kill_tree(process)
        # The output of a dead process shows where it died; a finished one may have left a child that holds the pipe.
        await asyncio.wait({self._spare.output}, timeout=0.3 if progress.end == "done" else EXIT_SECONDS)
        said = self._stacks.text() if self._stacks else ""
        printed = self._spare.capture.text()
        return Outcome(progress.end, process.returncode, printed, progress.step, said, progress.refused)

    def _send(self, message: Data) -> None:
        assert self._spare.process.stdin is not None
        self._spare.process.stdin.write(protocol.encode(message))

    async def feed(self, more: asyncio.Queue[Data]) -> None:
        while True:
            message = await more.get()
            self._progress.go_on()
            self._send(message)

    async def _watch_over(self) -> None:
        """Until it exceeds a limit, or some time after its end: its last messages may be unread."""
        process, progress = self._spare.process, self._progress
        while progress.end is None and process.returncode is None:
            await asyncio.sleep(TICK)
            progress.end = progress.end or progress.watch.look(process.pid)
        if progress.end is None:
            await asyncio.sleep(_END_SECONDS)


class SpawnWorker:
    """The same interface as ``forked.ForkWorker``."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.hello: Json = {}
        self.alive = False
        self._spare: asyncio.Task[_Spare] | None = None
        self._busy: set[_Spare] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._dying: set[int] = set()

    async def start(self) -> None:
        """Raises WorkerUnavailable with a sentence for the user if the interpreter cannot be used."""
        self._spare = asyncio.ensure_future(self._prepare())
        await self._spare  # cancelled with this task
        self.alive = True

    async def run(
        self,
        message: Data,
        limits: Limits,
        on_event: OnEvent,
        more: asyncio.Queue[Data] | None = None,
    ) -> Outcome:
        """One job in one fresh process.  Cancelling the task kills the process.

        ``more`` yields further messages for a job that waits for them; between its event ``idle`` and the next message
        it has no deadline.
        """
        if not self.alive:
            return Outcome("lost")
        taken = self._spare or asyncio.ensure_future(self._prepare())
        self._spare = None if self.launch.whole else asyncio.ensure_future(self._prepare())
        try:
            spare = await asyncio.shield(taken)
        except WorkerUnavailable:
            self.alive = False
            return Outcome("lost")
        except asyncio.CancelledError:
            taken.add_done_callback(self._discard)
            raise
        self._busy.add(spare)
        running = _Running(spare, message, limits, waits=more is not None)
        feeding = asyncio.ensure_future(running.feed(more)) if more is not None else None
        try:
            outcome = await running.do(on_event)
            return outcome if outcome.end == "done" or spare in self._busy else Outcome("lost")
        finally:
            if feeding is not None:
                feeding.cancel()
            self._busy.discard(spare)
            await asyncio.wait({self._end(spare)}, timeout=_END_SECONDS)

    def processes_of(self, path: str) -> set[int | None]:
        """The processes that are being ended, whichever file they have executed."""
        return {*self._dying}

    def import_compiler(self) -> None:
        """From now on processes are prepared with torch's compiler imported."""
        self.launch = replace(self.launch, compiler=True)

    async def _prepare(self) -> _Spare:
        folder = temporary.make()
        environment = {**self.launch.environment(), **({"TMPDIR": folder} if folder else {})}
        lines = _Lines()
        process = None
        try:
            process = await self.launch.start(
                "spare",
                *lines.passed,
                environment=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 20,
            )
        finally:
            lines.pass_on()
            if process is None:
                lines.close()
                temporary.remove(folder)
        spare = _Spare(process, folder, lines)
        try:
            hello = await spare.hello(self.launch.python)
            problem = hello.get("error") or protocol.mismatch(hello)
            if problem:
                raise WorkerUnavailable(problem)
        except BaseException:
            await asyncio.shield(spare.end())
            raise
        self.hello = hello
        return spare

    async def close(self) -> None:
        """Ends the spare process and every job."""
        self.alive = False
        spare, self._spare = self._spare, None
        busy, self._busy = self._busy, set()
        for each in busy:
            self._end(each)
        if spare is not None and not self._discard(spare):
            spare.cancel()
            with contextlib.suppress(asyncio.CancelledError, WorkerUnavailable):
                await spare
        # Also those of finished jobs: once a process is killed, only this one removes its folder.
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _end(self, spare: _Spare) -> asyncio.Task[None]:
        ending = asyncio.ensure_future(spare.end())
        self._ending.add(ending)
        self._dying.add(pid := spare.process.pid)
        ending.add_done_callback(self._ending.discard)
        ending.add_done_callback(lambda _: self._dying.discard(pid))
        return ending

    def _discard(self, task: asyncio.Task[_Spare]) -> bool:
        """Ends the process that a task has started; false if it has not started one yet."""
        made = task.done() and not task.cancelled() and task.exception() is None
        if made:
            self._end(task.result())
        return made

    def log(self) -> str:
        return ""


def kill_tree(process: asyncio.subprocess.Process) -> None:
    """Kills the process and its group, except its trackers of shared memory; on Windows the tree found by
    ``taskkill``."""
    if process.returncode is not None and os.name != "posix":
        return
    if sys.platform == "win32":
        import subprocess

        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
        return
    processes.kill_job(process.pid)
