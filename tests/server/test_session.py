"""What the session does with its documents when they are saved or closed, or when settings change: with fake traces and
a fake index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fxlens.config.settings import Settings
from fxlens.host.pool import Pool
from fxlens.jobs import trace
from fxlens.record import Record, empty_record, finding, span, target
from fxlens.workspace import environment
from fxlens.workspace.document import Document
from fxlens.workspace.session import Session

SETTINGS = Settings(verify=False, lowering="off", captures=("fx",), debounce=0, python="/one/python")


class Knowledge:
    """Answers when ``go`` is set."""

    def __init__(self, folder: str) -> None:
        self.said: list[tuple[str, str | None]] = []
        self.questions = 0
        self.go = asyncio.Event()
        self.go.set()

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def update(self, path: str, text: str | None) -> None:
        self.said.append((Path(path).name, text))

    async def of_file(self, path: str) -> dict[str, Any]:
        self.questions += 1
        await self.go.wait()
        return {}

    def recorded_for(self, path: str) -> dict[str, Any]:
        return {}


class Workspace:
    """A session with two files, of which ``train.py`` imports ``net.py``.  Traces end when ``go`` is set."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.go = asyncio.Event()
        self.traced: list[str] = []
        self.session = Session(lambda *said: None, lambda status: None)
        self.session.begin(True)
        for name in ("net.py", "train.py"):
            (root / name).write_text(f"# {name}\n")

    @property
    def knowledge(self) -> Knowledge:
        return self.session._environment.knowledge(str(self.root))

    async def configure(self, **settings: Any) -> None:
        await self.session.configure({None: SETTINGS, str(self.root): replace(SETTINGS, **settings)})

    def open(self, name: str) -> Document:
        path = self.root / name
        self.session.opened(path.as_uri(), str(path), str(self.root), path.read_text(), 1)
        return self.session.documents[path.as_uri()]

    async def trace(self, pool: Pool, request: Any, *told: Any) -> Record:
        self.traced.append(Path(request.path).name)
        await self.go.wait()
        return {**empty_record(request.path), "files": [str(self.root / "net.py")]}


Test = Callable[[Workspace], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        async def all_of_it() -> None:
            monkeypatch.setattr(environment, "Knowledge", Knowledge)
            workspace = Workspace(tmp_path)
            monkeypatch.setattr(trace, "run", workspace.trace)
            await workspace.configure()
            await asyncio.wait_for(test(workspace), 60)
            await workspace.session.close()

        asyncio.run(all_of_it())

    return run


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_a_trace_ends_before_its_interpreter_is_given_up(run):
    async def test(workspace: Workspace) -> None:
        document = workspace.open("net.py")
        await until(lambda: workspace.traced == ["net.py"])
        pool, first, told = workspace.session._environment.pool(str(workspace.root)), document.task, []

        async def close() -> None:
            await asyncio.wait({first})
            told.append(first.cancelled() and document.task is not None)  # who asks for its record waits for the next

        pool.close = close
        await workspace.configure(python="/other/python")
        assert told == [True]
        workspace.go.set()
        await until(lambda: document.record is not None)
        assert workspace.traced == ["net.py", "net.py"]

    run(test)


@pytest.mark.parametrize("newer_ends_first", [True, False])
def test_the_graphs_of_an_earlier_trace_are_no_news_about_a_text_traced_since(run, monkeypatch, newer_ends_first: bool):
    """Another file has changed meanwhile, so that the version is the same."""
    ends = [asyncio.Event() for _ in range(3)]
    names = iter(["First", "Second", "Third"])

    async def test(workspace: Workspace) -> None:
        said: list[list[str | None]] = []

        async def traced(pool: Pool, request: Any, diagnosed: Callable[[Record], None], *told: Any) -> Record:
            name = next(names)
            found = {**finding("FX120", "error", name), "target": name}
            model = {**target(name, span(request.path, 1)), "findings": [found]}
            record = {**empty_record(request.path), "files": [str(workspace.root / "train.py")], "targets": [model]}
            diagnosed(record)
            await ends[["First", "Second", "Third"].index(name)].wait()
            diagnosed(record)  # another process had to be started for its graphs
            return record

        monkeypatch.setattr(trace, "run", traced)
        refreshing = workspace.session._refreshing
        refreshing._publish = lambda document, found, complete: said.append([each["target"] for each in found])
        ends[0].set()
        document = workspace.open("net.py")
        await until(lambda: document.record is not None)
        for name in ("Second", "Third"):
            workspace.session.read_file_changed(str(workspace.root / "train.py"))
            await until(lambda name=name: [name] in said)
        second, third = document.finishing, document.task
        shown, last = len(said), {"Second": (1, second), "Third": (2, third)}
        for name in ("Third", "Second") if newer_ends_first else ("Second", "Third"):
            number, task = last[name]
            ends[number].set()
            await asyncio.wait({task})
            kept = document.record["targets"][0]["name"]
            assert kept == ("Third" if newer_ends_first else name), "views have the newest graphs"
        assert ["Second"] not in said[shown:] and document.shown[0]["target"] == "Third"

    run(test)


def test_a_save_does_not_begin_a_trace_of_the_same_text_again(run):
    async def test(workspace: Workspace) -> None:
        document = workspace.open("net.py")
        await until(lambda: workspace.traced == ["net.py"])
        workspace.session.saved(document.uri)
        workspace.go.set()
        await until(lambda: document.record is not None)
        assert workspace.traced == ["net.py"]

    run(test)


@pytest.mark.parametrize("saved", [False, True])
def test_a_document_that_is_closed_is_the_file_again(run, saved: bool):
    """If its text was not saved, documents that import it are traced again."""

    async def test(workspace: Workspace) -> None:
        workspace.go.set()
        net, train = workspace.open("net.py"), workspace.open("train.py")
        await until(lambda: train.record is not None and net.record is not None)
        workspace.session.changed(net.uri, "# other\n", 2)
        await until(lambda: ("net.py", "# other\n") in workspace.knowledge.said)
        await until(lambda: workspace.traced.count("train.py") == 2)
        if saved:
            (workspace.root / "net.py").write_text("# other\n")
            workspace.session.saved(net.uri)
            await until(lambda: workspace.traced.count("train.py") == 3)
            workspace.session.closed(net.uri)
            await asyncio.sleep(0.5)
            assert workspace.traced.count("train.py") == 3
        else:
            workspace.session.closed(net.uri)
            await until(lambda: workspace.traced.count("train.py") == 3)
            assert [text for name, text in workspace.knowledge.said if name == "net.py"][-1] is None
            # An editor opens what was not saved when it ended with that text.
            workspace.session.opened(net.uri, net.path, net.folder, "# other\n", 1)
            await until(lambda: workspace.traced.count("train.py") == 4)

    run(test)


def test_nothing_is_learnt_of_a_document_that_was_closed_at_once(run):
    async def test(workspace: Workspace) -> None:
        document = workspace.open("net.py")
        workspace.session._refreshing.learn(document)
        workspace.session.closed(document.uri)
        await asyncio.sleep(0.05)
        assert workspace.knowledge.said == []

    run(test)


def test_a_change_on_disk_while_the_index_answers_is_asked_about(run):
    async def test(workspace: Workspace) -> None:
        workspace.go.set()
        document = workspace.open("train.py")
        await until(lambda: document.record is not None and document.learning is not None and document.learning.done())
        workspace.knowledge.go.clear()
        asked = workspace.knowledge.questions
        workspace.session.changed_on_disk(str(workspace.root / "other.py"))
        await until(lambda: workspace.knowledge.questions == asked + 1)
        workspace.session.changed_on_disk(str(workspace.root / "other.py"))
        workspace.knowledge.go.set()
        await until(lambda: workspace.knowledge.questions == asked + 2)
        await until(lambda: document.learning.done())
        assert workspace.knowledge.questions == asked + 2

    run(test)


def test_pools_and_settings(run):
    """A pool lives as long as its folder, interpreter and number of jobs stay, whether a document is open or not."""

    async def test(workspace: Workspace) -> None:
        root, around = str(workspace.root), workspace.session._environment
        first = around.pool(root)
        await workspace.configure(deadline=99)
        assert around.pool(root) is first
        await workspace.configure(jobs=7)
        second = around.pool(root)
        assert second is not first and (first._closed, second.slots) == (True, 7)
        await workspace.configure(jobs=7, python="/other/python")
        assert second._closed and around.pool(root).launch.python == "/other/python"

    run(test)


def test_fixes_for_other_captures_are_being_checked_until_their_own_proof_has_ended():
    """Those for torch.fx are known by then: their proof comes first."""

    async def test() -> None:
        ended, waiting = asyncio.Event(), asyncio.Event()
        document = Document("file:///net.py", "/net.py", None, "x = 1\n", 1)
        document.verifying, document.capturing = asyncio.create_task(ended.wait()), asyncio.create_task(waiting.wait())
        assert document.checks("fx") and document.checks("export")
        ended.set()
        await document.verifying
        assert not document.checks("fx") and document.checks("export")
        document.proving = asyncio.create_task(waiting.wait())
        document.capturing.cancel()
        await asyncio.sleep(0)
        assert document.checks("compile")
        waiting.set()
        await document.proving
        assert not document.checks("export")

    asyncio.run(test())
