"""Decides when a job has used too much time or memory or too many processes.

The server decides, from the system's data about the job's process, without help from user code.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from fxlens.ipc.processes import descendants_of, exact_memory, memory_of, threads_of, unmapped_memory
from fxlens.ipc.request import Limits

from .outcome import SLOW, Capture

TICK = 0.05
"""Seconds between two checks."""

FIRST_STEP_SECONDS = 30.0  # before user code runs, only a slow machine can be the cause
_STACK_SECONDS = 4.0
_STACK_MARK = SLOW.encode()
_LEAST_SHARE = 0.1


@dataclass
class _Period:
    """A period from its beginning: the clock, the process's waiting time for a processor then, and how long this server
    was delayed since."""

    began: float
    waited: float
    held_up: float = 0.0

    def used(self, now: float, waited: float) -> float:
        """Seconds that count toward the deadline."""
        passed = now - self.began
        return max(passed - (waited - self.waited) - self.held_up, passed * _LEAST_SHARE)


class Watch:
    """Checks one process every ``TICK``.

    The deadline excludes delays by the machine: time in which the process was ready but got no processor, and time in
    which this server itself was delayed. On an idle machine it is clock time; on a busy one at most ten times as long.

    Each step has its own deadline. User code can announce steps too, so all of them together have the time of ``steps``
    deadlines.
    """

    def __init__(self, limits: Limits, output: Capture, steps: int = 1) -> None:
        self._limits = limits
        self._output = output
        self._steps = steps
        self._looks = 0
        self._all: _Period | None = None
        self._pid: int | None = None
        self._children: dict[int, int] = {}
        self._children_memory = 0
        self._unmapped = 0
        self._below: list[int] = []
        self._begin()

    def step(self) -> None:
        """Begin the next step, with a new deadline."""
        self._begin()
        self._all = self._all or replace(self._step)

    def go_on(self) -> None:
        """Continue with a further request, with time for all steps again."""
        self._all = None
        self.step()

    def pause(self) -> None:
        """Suspend the deadline while the job waits for a request."""
        self._paused = True

    def _begin(self) -> None:
        self._paused = False
        self._last = time.monotonic()
        self._step = _Period(self._last, waited_for_processor(self._pid))
        self._written_before = self._output.total
        self._out_of_time: float | None = None
        self._stack = b""

    def look(self, pid: int | None) -> str | None:
        """``timeout``, ``overtime``, ``memory``, ``processes`` or ``threads`` once the process is to be killed
        (`Outcome`)."""
        now = time.monotonic()
        periods = [each for each in (self._step, self._all) if each is not None]
        for each in periods:
            each.held_up += max(now - self._last - 2 * TICK, 0.0)
        self._last = now
        self._looks += 1
        if self._pid is None and pid is not None:
            self._pid = pid
            for each in periods:
                each.waited = waited_for_processor(pid)
        if not self._paused and self._late(now):
            return "timeout"
        in_time = not self._paused and self._out_of_time is None
        if in_time and self._all and self._used(self._all, now) > self._steps * self._limits.deadline:
            return "overtime"
        if pid is None:
            return None
        if self._looks % 5 == 0:
            # Each thread may have children: many are not asked one by one.
            if threads_of(pid) > self._limits.threads:
                return "threads"
            self._below = descendants_of(pid)
            if len(self._below) >= self._limits.processes:
                return "processes"
            if sum(map(threads_of, (pid, *self._below))) > self._limits.threads:
                return "threads"
            self._children_memory = sum(self._grown(each) for each in self._below)
            self._unmapped = sum(map(unmapped_memory, (pid, *self._below)))
        memory = memory_of(pid) + self._children_memory + self._unmapped
        if memory > self._limits.memory:
            # Shared memory may have been counted for each process that shares it.
            memory = sum(map(exact_memory, (pid, *self._below))) + self._unmapped or memory
        return "memory" if memory > self._limits.memory else None

    def _grown(self, child: int) -> int:
        """Bytes that a child of the job has taken since it was first seen; before, its pages are the job's."""
        now = memory_of(child)
        return max(now - self._children.setdefault(child, now), 0)

    def _used(self, period: _Period, now: float) -> float:
        return period.used(now, waited_for_processor(self._pid))

    def _late(self, now: float) -> bool:
        """Whether the step is over its deadline, and its stack was written or had enough time to be."""
        if self._out_of_time is None:
            allowed = self._limits.deadline if self._all else max(self._limits.deadline, FIRST_STEP_SECONDS)
            if self._used(self._step, now) <= allowed:
                return False
            self._out_of_time = now
        written = self._output.since(self._written_before)
        stack = written[written.rfind(_STACK_MARK) :] if _STACK_MARK in written else b""
        whole = b'File "' in stack and stack == self._stack
        self._stack = stack
        return whole or now - self._out_of_time > _STACK_SECONDS


def waited_for_processor(pid: int | None) -> float:
    """Seconds in which the process was ready but not running; 0 if the system does not report it."""
    if pid is None:
        return 0.0
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
