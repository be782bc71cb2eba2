"""Starting of workers, waiting of jobs, and leftovers; mostly with fake workers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from fxlens.host import model_job, pool
from fxlens.host.launch import Launch
from fxlens.host.model_job import ModelJob
from fxlens.host.outcome import Failed, Outcome
from fxlens.host.pool import Pool
from fxlens.host.spawned import SpawnWorker
from fxlens.ipc.request import Limits, Request
from processes import descendants, gone

FORKS = Launch(sys.executable, mode="fork")


class Worker:
    """Starts when ``go`` is set, and its branches when ``imported`` is; its jobs go on until they are cancelled, but
    those of the path ``quick``."""

    go: asyncio.Event
    imported: asyncio.Event
    made: list[Worker]
    modules: frozenset[str] = frozenset()
    base: Worker | None = None

    def __init__(self, launch: Launch) -> None:
        self.alive, self.hello, self.running, self.background = False, {}, [], []
        self.made.append(self)

    def processes_of(self, path: str) -> set[int | None]:
        return set()

    async def start(self) -> None:
        await self.go.wait()
        self.alive = True

    async def close(self) -> None:
        self.alive = False

    async def branch(self, modules: list[str]) -> Worker:
        made = Worker(None)
        made.base = self
        try:
            await self.imported.wait()
        except asyncio.CancelledError:
            await made.close()
            raise
        made.alive = True
        return made

    async def run(self, message: Any, limits: Limits, on_event: Callable[[Any], None]) -> Outcome:
        self.running.append(message["path"])
        self.background.append(message["background"])
        on_event({"event": "step"})
        if message["path"] != "quick":
            await asyncio.Event().wait()
        return Outcome("done", step={"step": "import"})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Pool], Coroutine[Any, Any, None]]], None]:
    def run(test: Callable[[Pool], Coroutine[Any, Any, None]]) -> None:
        async def all_of_it() -> None:
            Worker.go, Worker.imported, Worker.made = asyncio.Event(), asyncio.Event(), []
            monkeypatch.setattr(pool, "ForkWorker", Worker)
            await asyncio.wait_for(test(Pool(FORKS, slots=2)), 60)

        asyncio.run(all_of_it())

    return run


def job(workers: Pool, path: str, **options: bool) -> asyncio.Task[Outcome]:
    kind = "verify" if options.get("background") else "trace"
    message = {"kind": kind, "path": path, "text": ""}
    return asyncio.ensure_future(workers.run(message, Limits(), lambda event: None, **options))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_what_was_begun_is_what_the_first_job_waits_for(run):
    async def test(workers: Pool) -> None:
        for _ in range(2):
            workers.begin("")
            await settle()
        first = job(workers, "quick")
        Worker.go.set()
        assert (await first).end == "done" and len(Worker.made) == 1
        workers.begin("")
        await workers.close()
        workers.begin("")
        await settle()
        assert len(Worker.made) == 1

    run(test)


def test_the_start_goes_on_where_the_job_that_began_it_is_cancelled(run):
    async def test(workers: Pool) -> None:
        for _ in range(3):
            first = job(workers, "edited")
            await settle()
            await end(first)
        second = job(workers, "quick")
        await settle()
        assert len(Worker.made) == 1
        Worker.go.set()
        assert (await second).end == "done" and len(Worker.made) == 1
        await workers.close()

    run(test)


@pytest.mark.parametrize("late", [False, True], ids=["while it imports", "while it works"])
def test_the_zygote_for_captures_outlives_the_job_that_is_cancelled(run, late: bool):
    async def test(workers: Pool) -> None:
        Worker.go.set()
        if late:
            Worker.imported.set()
        for _ in range(3):
            first = job(workers, "edited", captures=True)
            await settle()
            await end(first)
        Worker.imported.set()
        assert (await job(workers, "quick", captures=True)).end == "done"
        assert len(Worker.made) == 2 and Worker.made[1].alive
        assert Worker.made[1].running == ["edited"] * 3 * late + ["quick"]
        await workers.close()
        assert not Worker.made[1].alive

    run(test)


def test_a_pool_that_is_closed_while_its_zygote_for_captures_imports_has_none(run):
    async def test(workers: Pool) -> None:
        Worker.go.set()
        waiting = job(workers, "quick", captures=True)
        await settle()
        await workers.close()
        with pytest.raises(pool.WorkerUnavailable, match="no longer used"):
            await waiting
        assert [each.alive for each in Worker.made] == [False, False]

    run(test)


@pytest.mark.parametrize("late", [False, True], ids=["while it starts", "as it has started"])
def test_a_pool_that_is_closed_while_its_worker_starts_has_none(run, late: bool):
    async def test(workers: Pool) -> None:
        waiting = asyncio.ensure_future(workers.ready())
        await settle()
        if late:
            Worker.go.set()
        await workers.close()
        Worker.go.set()
        await settle()
        with pytest.raises(pool.WorkerUnavailable, match="no longer used"):
            await waiting
        assert [each.alive for each in Worker.made] == [False]

    run(test)


def test_whoever_waits_for_a_worker_gets_the_one_that_a_restart_starts(run):
    async def test(workers: Pool) -> None:
        waiting = job(workers, "quick")
        await settle()
        await workers.restart()
        Worker.go.set()
        assert (await waiting).end == "done"
        assert [each.alive for each in Worker.made] == [False, True]
        await workers.close()

    run(test)


def test_jobs_in_the_background_hold_no_trace_up(run):
    async def test(workers: Pool) -> None:
        Worker.go.set()
        others = [job(workers, f"{n}", background=True) for n in range(20)]
        await settle()
        assert Worker.made[0].running == ["0"]
        assert (await asyncio.wait_for(job(workers, "quick"), 1)).end == "done"
        await end(*others)
        await workers.close()

    run(test)


def test_where_somebody_waits_for_all_jobs_those_in_the_background_are_like_the_others(monkeypatch):
    async def test() -> None:
        Worker.go, Worker.imported, Worker.made = asyncio.Event(), asyncio.Event(), []
        Worker.go.set()
        monkeypatch.setattr(pool, "ForkWorker", Worker)
        workers = Pool(FORKS, slots=3, once=True)
        others = [job(workers, f"{n}", background=True) for n in range(20)]
        await settle()
        (worker,) = Worker.made
        assert worker.running == ["0", "1", "2"] and not any(worker.background)
        await end(*others)
        await workers.close()

    asyncio.run(test())


def test_slow_jobs_let_others_begin_up_to_a_number(run, monkeypatch):
    monkeypatch.setattr(pool, "_SLOW_SECONDS", 0.01)

    async def test(workers: Pool) -> None:
        Worker.go.set()
        tasks = [job(workers, f"{n}") for n in range(20)]
        await asyncio.sleep(0.3)
        assert len(Worker.made[0].running) == 2 + pool._SLOW_JOBS
        await end(*tasks)
        assert (await asyncio.wait_for(job(workers, "quick"), 1)).end == "done"
        await workers.close()

    run(test)


@pytest.fixture
def silent(tmp_path: Path) -> str:
    """An interpreter that never says hello."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.skipif(os.name != "posix", reason="a program of the shell")
def test_a_process_that_starts_ends_with_the_job_that_wanted_it(silent: str):
    async def test() -> None:
        before = set(descendants(os.getpid()))
        for _ in range(2):
            start = asyncio.ensure_future(SpawnWorker(Launch(silent, mode="spawn")).start())
            while not (made := set(descendants(os.getpid())) - before):
                await asyncio.sleep(0.02)
            await end(start)
            assert gone(list(made)) == []

    asyncio.run(test())


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), None], ids=["an error of ours", "nothing said"])
def test_a_job_without_a_result_fails(monkeypatch, error: OSError | None):
    class Process(Worker):
        async def start(self) -> None:
            self.alive = True

        async def run(self, *arguments: Any) -> Outcome:
            if error is not None:
                raise error
            return Outcome("done")

    async def test() -> None:
        Worker.made = []
        monkeypatch.setattr(model_job, "SpawnWorker", Process)
        asked = ModelJob(Launch(sys.executable, whole=True), "lower", Request("/x.py", ""), None, {})
        with pytest.raises(Failed, match="without a result"):
            await asyncio.wait_for(asked.result(lambda text, fraction: None), 60)
        await asked.close()

    asyncio.run(test())
