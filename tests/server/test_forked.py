"""A real zygote whose jobs, branches and kept files end abnormally."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from fxlens.host import forked
from fxlens.host.forked import ForkWorker
from fxlens.host.launch import Launch
from fxlens.host.outcome import Outcome, WorkerUnavailable
from fxlens.host.pipes import PipeCapture
from fxlens.host.spawned import SpawnWorker
from fxlens.ipc import temporary
from fxlens.ipc.request import Limits, Request
from processes import descendants, gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has zygotes")

MODEL = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
LOOP = MODEL + "\n\nimport time\n\nwhile True:\n    time.sleep(0.1)\n"


def trace(path: Path, text: str) -> Any:
    return Request(str(path), text).message("trace", cursor="", batch="", device="", stack_after=0.1, skip=[])


class Zygote:
    """One for all tests here, on a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.errors: list[object] = []
        self.loop.set_exception_handler(lambda loop, context: self.errors.append(context.get("exception")))
        self.folder = folder
        self.worker = ForkWorker(Launch(sys.executable, str(folder), mode="fork"))
        self.run(self.worker.start())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 120))

    async def trace(self, text: str = MODEL, worker: ForkWorker | None = None, **limits: Any) -> Outcome:
        worker = worker or self.worker
        return await worker.run(trace(self.folder / "net.py", text), Limits(**limits), lambda event: None)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    folder = tmp_path_factory.mktemp("zygote")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        zygote = Zygote(folder)
    yield zygote
    zygote.run(zygote.worker.close())
    zygote.loop.close()
    assert zygote.errors == []


def test_a_job_that_is_cancelled_before_it_has_read_its_message(zygote: Zygote):
    """The loop forgets its descriptor, which the next pipe or socket gets."""

    async def test() -> None:
        text = MODEL + "#" * 2_000_000
        for seconds in (0, 0, 0, 0.001, 0.003, 0.01):
            job = asyncio.ensure_future(zygote.trace(text))
            await asyncio.sleep(seconds)
            await asyncio.sleep(0)
            job.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await job
            known = [key.fd for key in zygote.loop._selector.get_map().values()]
            assert [fd for fd in known if not os.path.exists(f"/proc/self/fd/{fd}")] == []
        assert (await zygote.trace()).end == "done"

    zygote.run(test())


def test_a_branch_whose_import_hangs_ends(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    said = zygote.folder / "hanging"  # other processes are made meanwhile, such as one that waits for a job
    package = f"import os, time\nwith open({str(said)!r}, 'w') as file:\n    file.write(str(os.getpid()))\n"
    (zygote.folder / "hanging_package.py").write_text(package + "while True:\n    time.sleep(1)\n")
    monkeypatch.setattr(forked, "START_SECONDS", 5.0)  # it has said its pid by then, on a busy machine too

    async def test() -> None:
        with pytest.raises(WorkerUnavailable, match="took more than"):
            await zygote.worker.branch(["hanging_package"])

    zygote.run(test())
    assert gone([int(said.read_text())]) == []
    assert zygote.run(zygote.trace()).end == "done"


def test_a_kept_file_that_does_not_answer_ends_alone(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    async def test() -> None:
        monkeypatch.setattr(forked, "_KILL_SECONDS", 1.0)
        kept = await zygote.worker.keep(trace(zygote.folder / "net.py", MODEL), Limits())
        other = asyncio.ensure_future(zygote.trace(LOOP, deadline=60))
        os.kill(kept.pid, signal.SIGSTOP)
        waiting = descendants(kept.pid)  # the fork that waits for the next text could still answer
        for pid in waiting:
            os.kill(pid, signal.SIGSTOP)
        outcome = await zygote.trace(worker=kept)
        assert outcome.end == "lost" and not kept.alive
        assert gone([kept.pid, *waiting]) == []
        assert zygote.worker.alive and not other.done()
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        await kept.close()

    zygote.run(test())


def test_a_job_that_is_stopped_while_the_zygote_imports_the_compiler(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    """Its end is waited for: the zygote is busy, and all other jobs are below it."""
    pid = zygote.worker._process._process.pid

    async def test() -> None:
        job = asyncio.ensure_future(zygote.trace(LOOP, deadline=0.2))
        while not (running := list(zygote.worker._running.values())) or running[-1].pid is None:
            await asyncio.sleep(0.02)
        monkeypatch.setattr(forked, "_KILL_SECONDS", 0.5)
        monkeypatch.setattr(zygote.worker, "_compiler", "coming")
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(2)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        assert (await job).end == "timeout"
        assert zygote.worker.alive

    zygote.run(test())
    assert zygote.run(zygote.trace()).end == "done"


def test_a_worker_that_has_ended_makes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def test() -> None:
        ended, held = ForkWorker(Launch(sys.executable, mode="fork")), dict(temporary._held)
        for asked in (ended.branch(["x"]), ended.keep({}, Limits())):
            with pytest.raises(WorkerUnavailable, match="has ended"):
                await asked
        assert temporary._held == held and list(tmp_path.iterdir()) == []

    asyncio.run(test())


def test_the_text_of_a_pipe_that_is_closed():
    async def test() -> None:
        read, write = os.pipe()
        os.write(write, b"said")
        pipe = PipeCapture(read)
        assert pipe.text() == "said"
        pipe.close()
        os.close(write)
        assert pipe.text() == "said"

    asyncio.run(test())


def test_a_job_without_fork_whose_worker_is_closed_is_lost(tmp_path: Path):
    """As with fork: nobody says of it that its code has ended the process."""

    async def test() -> None:
        worker = SpawnWorker(Launch(sys.executable, str(tmp_path), mode="spawn"))
        await worker.start()
        begun = asyncio.Event()
        message = trace(tmp_path / "net.py", LOOP)
        job = asyncio.ensure_future(worker.run(message, Limits(deadline=60), lambda event: begun.set()))
        await begun.wait()
        await worker.close()
        assert (await job).end == "lost"

    asyncio.run(asyncio.wait_for(test(), 120))
