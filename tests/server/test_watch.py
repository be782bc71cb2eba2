"""When a job is given up: with a clock and a system of our own, so that nothing depends on the machine."""

from __future__ import annotations

import pytest
from fxlens.host import watch
from fxlens.host.outcome import HEAD_BYTES, TAIL_BYTES, Capture
from fxlens.ipc.request import Limits

STACK = b'Timeout (0:00:00.900000)!\nThread 0x1 (most recent call first):\n  File "/a/net.py", line 3 in forward\n'


class Machine:
    """Time goes by in looks; the process gets a share of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
        self.now, self.waited = 1000.0, 5.0
        self.memory: dict[int, int] = {7: 100}
        monkeypatch.setattr(watch.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(watch, "waited_for_processor", lambda pid: self.waited if pid else 0.0)
        monkeypatch.setattr(watch, "unmapped_memory", lambda pid: 0)
        monkeypatch.setattr(watch, "memory_of", lambda pid: self.memory.get(pid, 0))
        self.shared: dict[int, int] = {}  # what of that others have too
        monkeypatch.setattr(watch, "exact_memory", lambda pid: self.memory.get(pid, 0) - self.shared.get(pid, 0))
        monkeypatch.setattr(watch, "descendants_of", lambda pid: [each for each in self.memory if each != pid])
        self.output = Capture()
        self.watch = watch.Watch(Limits(**limits), self.output)
        self.watch.look(7)

    def go(self, seconds: float, share: float = 1.0, tick: float = watch.TICK) -> str | None:
        """Looks until something is decided, at most so long."""
        until = self.now + seconds
        while self.now < until:
            self.now += tick
            self.waited += tick * (1 - share)
            if (end := self.watch.look(7)) is not None:
                return end
        return None


def test_a_step_is_given_up_at_its_deadline_once_it_has_said_where_it_is(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch.step()
    assert machine.go(0.8) is None
    machine.output.feed(STACK)
    assert machine.go(0.1) is None
    assert machine.go(0.4) == "timeout"


def test_a_process_that_says_nothing_is_given_up_a_little_later(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.output.feed(STACK)  # of the step before
    machine.watch.step()
    assert machine.go(4.5) is None
    assert machine.go(1.0) == "timeout"


def test_half_a_stack_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch.step()
    machine.output.feed(STACK[:60])
    assert machine.go(1.5) is None
    machine.output.feed(STACK[60:])
    assert machine.go(watch.TICK * 2.5) == "timeout"


def test_time_without_a_processor_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch.step()
    machine.output.feed(STACK)
    assert machine.go(4.5, share=0.2) is None
    assert machine.go(2.0, share=0.2) == "timeout"


def test_on_the_busiest_machine_it_ends_too(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch.step()
    machine.output.feed(STACK)
    assert machine.go(9.5, share=0.0) is None
    assert machine.go(2.0, share=0.0) == "timeout"


def test_time_in_which_the_server_was_held_up_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch.step()
    machine.output.feed(STACK)
    assert machine.go(4.0, tick=1.0) is None
    assert machine.go(2.0) == "timeout"


def test_all_steps_together_end_though_each_is_short(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.watch = watch.Watch(Limits(deadline=1.0), machine.output, steps=5)
    machine.watch.step()
    for _ in range(9):
        assert machine.go(0.5) is None
        machine.watch.step()
    assert machine.go(0.9) == "overtime"
    machine.watch.go_on()
    assert machine.go(0.9) is None


def test_before_user_code_begins_only_the_machine_can_be_slow(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=1.0)
    machine.output.feed(STACK)
    assert machine.go(watch.FIRST_STEP_SECONDS - 1) is None
    machine.watch.step()
    assert machine.go(0.8) is None


def test_memory_of_the_process_and_of_what_it_started(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=100.0, memory=1000)
    machine.memory[8] = 950  # as it begins, a copy of its parent: the pages are shared
    machine.shared[8] = 950
    assert machine.go(1.0) is None
    machine.memory[8] += 800
    assert machine.go(1.0) is None
    machine.memory[7] += 150
    assert machine.go(1.0) == "memory"


def test_shared_memory_counts_once(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=100.0, memory=1000)
    machine.memory[8] = 10
    assert machine.go(1.0) is None
    machine.memory = {7: 700, 8: 710}
    machine.shared = {7: 350, 8: 350}
    assert machine.go(1.0) is None


def test_processes_of_the_group_are_counted(monkeypatch: pytest.MonkeyPatch):
    machine = Machine(monkeypatch, deadline=100.0, processes=3)
    machine.memory |= {8: 1, 9: 1}
    assert machine.go(1.0) is None
    machine.memory[10] = 1
    assert machine.go(1.0) == "processes"


def test_output_since_a_mark():
    capture = Capture()
    capture.feed(b"before")
    mark = capture.total
    assert capture.since(mark) == b""
    capture.feed(b"after")
    assert capture.since(mark) == b"after"
    capture.feed(b"." * (HEAD_BYTES - 11) + b"tail")
    assert capture.since(mark).startswith(b"after...") and capture.since(mark).endswith(b"tail")
    assert capture.since(capture.total - 2) == b"il"
    capture.feed(b"x" * (TAIL_BYTES * 2) + b"end")
    assert capture.since(capture.total - 3) == b"end"
    assert len(capture.since(mark)) == HEAD_BYTES - mark + TAIL_BYTES
