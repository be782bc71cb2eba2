"""Which worker a file's next job gets, and which are created and ended; with fake workers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fxlens.host.branches import Branches
from fxlens.host.outcome import WorkerUnavailable


class Worker:
    """Has ``modules`` imported; a branch of it is made when ``release`` is called."""

    def __init__(self, modules: frozenset[str] = frozenset(), base: Worker | None = None) -> None:
        self.modules, self.base, self.alive = modules, base, True
        self.closed = self.busy = False
        self.asked: list[list[str]] = []
        self.fails = False
        self._released = asyncio.Event()

    async def branch(self, modules: list[str]) -> Worker:
        self.asked.append(modules)
        await self._released.wait()
        if self.fails:
            raise WorkerUnavailable("an imported module starts threads")
        return Worker(frozenset(modules), self)

    async def close(self) -> None:
        self.alive, self.closed = False, True

    async def release(self) -> None:
        self._released.set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def ran(branches: Any, path: str, imports: set[str], base: Worker, worker: Worker | None = None) -> Worker:
    """A job of the file that needs these packages, on ``worker`` or the one that it gets; gives that one."""
    worker = worker or branches.worker_for(path, base)
    branches.learn(path, sorted(imports - worker.modules), base, worker)
    return worker


def run(test: Any) -> None:
    asyncio.run(test(Branches(), Worker()))


def test_packages_are_imported_once():
    async def test(branches: Any, base: Worker) -> None:
        assert ran(branches, "a.py", {"vision"}, base) is base
        assert ran(branches, "a.py", {"vision"}, base) is base  # the branch is on its way
        await settle()
        assert base.asked == [["vision"]]
        await base.release()
        assert ran(branches, "a.py", {"vision"}, base).modules == {"vision"}
        assert ran(branches, "b.py", {"vision"}, base) is base  # not known of this file
        assert branches.worker_for("b.py", base).modules == {"vision"}
        assert len(base.asked) == 1

    run(test)


def test_a_file_that_names_what_others_imported_gets_their_branch_at_once():
    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        for path, text in (("a.py", "import torch\nimport vision.models"), ("plain.py", "import torch\n")):
            branches.learn(path, ["vision", "images"], base, base, text)
            await base.release()
        assert branches.worker_for("b.py", base, "import torch\nfrom vision import nets").modules == {
            "vision",
            "images",
        }
        assert branches.worker_for("c.py", base, "import torch\nimport images\n") is base
        branches.learn("b.py", [], base, base)
        assert branches.worker_for("b.py", base, "from vision import nets") is base

    run(test)


def test_where_each_file_comes_once_a_branch_is_made_for_the_second_that_needs_it():
    async def test(_: Any, base: Worker) -> None:
        branches = Branches(once=True)
        await base.release()
        for path, asked in (("a.py", 0), ("a.py", 0), ("b.py", 1)):
            branches.learn(path, ["vision"], base, base)  # type: ignore[arg-type]
            await settle()
            assert len(base.asked) == asked

    run(test)


def test_jobs_of_one_file_that_need_different_packages():
    """A trace and a lowering, in any order and at the same time: neither costs the other its branch."""

    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        ran(branches, "a.py", {"vision"}, base)
        await base.release()
        small = ran(branches, "a.py", {"vision"}, base)
        ran(branches, "a.py", {"vision", "onnx"}, base, small)
        assert branches.worker_for("a.py", base) is small  # while the greater one is on its way
        await base.release()
        assert branches.worker_for("a.py", base).modules == {"vision", "onnx"}
        ran(branches, "a.py", {"vision"}, base, base)  # a trace that began before all this ends now
        assert ran(branches, "a.py", {"vision"}, base).modules >= {"vision"}
        ran(branches, "a.py", {"vision", "onnx"}, base)
        assert branches.worker_for("a.py", base).modules == {"vision", "onnx"}
        assert base.asked == [["vision"], ["vision", "onnx"]]

    run(test)


def test_a_package_that_cannot_be_shared_is_tried_twice():
    async def test(branches: Any, base: Worker) -> None:
        base.fails = True
        await base.release()
        for _ in range(5):
            assert ran(branches, "a.py", {"threads"}, base) is base
            await base.release()
        assert len(base.asked) == 2

    run(test)


def test_branches_that_end_with_their_zygote_are_made_again():
    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        for _ in range(4):
            ran(branches, "a.py", {"vision"}, base)
            await base.release()
            branch = branches.worker_for("a.py", base)
            assert branch.modules == {"vision"}
            branch.alive = base.alive = False
            base = Worker()
            await base.release()
            assert branches.worker_for("a.py", base) is base

    run(test)


def test_a_branch_that_keeps_dying_is_given_up():
    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        for _ in range(4):
            ran(branches, "a.py", {"fragile"}, base)
            await base.release()
            dead = branches.worker_for("a.py", base)
            dead.alive = False
            base.alive = True
            assert branches.worker_for("a.py", base) is base
            await settle()
            assert dead.closed == (dead is not base)  # its folder goes with that
        assert len(base.asked) == 2

    run(test)


def test_the_one_not_used_for_longest_ends():
    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        made = []
        for name in ("a", "b", "c", "d"):
            ran(branches, name, {name}, base)
            await base.release()
            made.append(branches.worker_for(name, base))
            branches.worker_for("a", base)
        assert [each.alive for each in made] == [True, False, True, True]
        assert branches.worker_for("b", base) is base

    run(test)


def test_it_ends_once_its_jobs_are_done():
    async def test(branches: Any, base: Worker) -> None:
        await base.release()
        made = []
        for name in ("a", "b", "c", "d", "e"):
            ran(branches, name, {name}, base)
            await base.release()
            made.append(branches.worker_for(name, base))
            made[-1].busy = True
        await asyncio.sleep(0.15)
        assert all(each.alive for each in made)
        made[0].busy = False
        await asyncio.sleep(0.15)
        assert [each.alive for each in made] == [False, True, True, True, True]
        await branches.close()
        assert not any(each.alive for each in made)

    run(test)


@pytest.mark.parametrize("released", [False, True])
def test_closing_ends_all_also_those_on_their_way(released: bool):
    async def test(branches: Any, base: Worker) -> None:
        ran(branches, "a.py", {"vision"}, base)
        if released:
            await base.release()
            branch = branches.worker_for("a.py", base)
            assert branch is not base
        await branches.close()
        assert branches.describe() == [] and not branches._coming
        assert branches.worker_for("a.py", base) is base
        if released:
            assert not branch.alive

    run(test)
