"""What was loaded at a moment, asked in a process that is a fork: without a look at each of its modules."""

from __future__ import annotations

import os
import resource
import sys
from types import ModuleType

import pytest

from fxlib.diagnosis.fixes import loaded
from fxlib.diagnosis.fixes.loaded import Loaded


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch):
    """As they are before a fork; afterwards as if nothing had been."""
    monkeypatch.setattr(sys, "modules", sys.modules)
    before = dict(sys.modules)
    loaded.note()
    yield
    sys.modules.clear()
    sys.modules.update(before)
    loaded.note()


def load(*names: str) -> None:
    for name in names:
        sys.modules[name] = ModuleType(name)


def test_what_was_loaded_since_in_its_order():
    load("_early")
    known = Loaded()
    load("_b", "_a")
    assert known.since() == ["_b", "_a"]
    assert Loaded().since() == []


def test_what_is_loaded_again_was_there():
    load("_early")
    known = Loaded()
    for name in ("ast", "_early"):
        sys.modules[name] = sys.modules.pop(name)
    assert known.since() == []
    load("_late")
    assert known.since() == ["_late"]


@pytest.mark.parametrize("gone", [[loaded.__name__], [*sys.modules]], ids=["the mark", "all"])
def test_modules_that_are_taken_away_hide_nothing(gone: list[str]):
    known = Loaded()
    for name in gone:
        sys.modules.pop(name, None)
    load("_late")
    assert known.since() == ["_late"]


def test_what_stands_for_a_module_makes_room_for_it():
    load("_early")
    known, before = Loaded(), dict(sys.modules)
    sys.modules.update({"ast": object(), "_early": object(), "_late": object()})  # type: ignore[dict-item]
    del sys.modules["json"]
    known.put_back()
    assert sys.modules["ast"] is before["ast"] and sys.modules["_early"] is before["_early"]
    assert not isinstance(sys.modules["_late"], ModuleType) and "json" not in sys.modules


@pytest.mark.skipif(sys.platform != "linux", reason="counts pages as Linux does")
def test_a_fork_copies_no_pages_for_it():
    assert len(sys.modules) > 1000
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        Loaded().since()
        os.write(write, b"%d" % (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with open(read, "rb") as said:
        assert int(said.read()) < 50  # a set of all names: more than 500
