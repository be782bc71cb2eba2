"""A second try for tests that drive other processes.

If the machine stalls for seconds (two shared cores, a full disk cache), such a test can fail although the product
works. It is tried once more, and the summary lists it under ``RERUN``: look into each of these, since a race in the
product looks the same. Tests within one process get no second try.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "server"))
import warm_python as interpreters

if TYPE_CHECKING:
    from lsp_client import Client

# An exception in a shape rule or a detector is a bug, and is raised here and in the processes that tests start.
os.environ["FXLIB_STRICT"] = "1"
# Examples are the same in every run, and none fails because of a busy machine.
settings.register_profile("fxlens", deadline=None, derandomize=True)
settings.load_profile("fxlens")

HERE = Path(__file__).parent
PROCESSES = ("server", "faults", "editor", "examples", "fxlib/torch_compat", "fxlib/passes")


WARM = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """The warm interpreters are shared by a whole run: its workers get their paths."""
    if hasattr(config, "workerinput"):
        config.stash[WARM] = Path(config.workerinput["warm"])
        interpreters.use(config.stash[WARM])
        return
    kept = contextlib.ExitStack()
    config.add_cleanup(kept.close)
    config.stash[WARM] = folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="warm-python-")))
    kept.enter_context(interpreters.started(folder))
    interpreters.use(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of xdist."""
    node.workerinput["warm"] = str(node.config.stash[WARM])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nearly everything created here is permanent, and garbage collection would take a quarter of the time. The same
    holds for many objects of tests, with Python's default of a collection every 700 objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).as_posix().startswith(PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, warm_python: Path) -> Iterator[Client]:
    """A server with a warm worker, for all tests that do not need their own: ``shared.lent(deadline=30)``."""
    from lsp_client import started

    warm = {"VIRTUAL_ENV": str(warm_python / "plain")}
    with started(tmp_path_factory.mktemp("shared"), environment=warm, cold=True) as client:
        yield client


@pytest.fixture(scope="session")
def warm_python(pytestconfig: pytest.Config) -> Path:
    """Virtual environments whose workers start with torch already imported: ``plain``, and ``captures`` for tests that
    use torch.export or torch.compile."""
    return pytestconfig.stash[WARM]


@pytest.fixture
def warm(warm_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers and commands of a test use the first one as the user's interpreter, by default."""
    monkeypatch.setenv("VIRTUAL_ENV", str(warm_python / "plain"))


@pytest.fixture
def folder(shared: Client, request: pytest.FixtureRequest) -> Path:
    """An empty folder in the workspace of that server."""
    return Path(tempfile.mkdtemp(prefix=re.sub(r"\W+", "_", request.node.name), dir=shared.root))
