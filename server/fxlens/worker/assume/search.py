"""Best first: try a text, measure its progress, change what the failure blames, continue from the attempt that got
furthest."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import sandbox
from .slots import Option, Slot, State


@dataclass
class Outcome:
    """The result of a trial. ``progress`` is comparable: larger means that the code ran further before it raised."""

    value: Any = None
    error: BaseException | None = None
    progress: tuple[Any, ...] = ()
    detail: Any = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass
class Budget:
    """Trials and seconds that a search may take.

    Seconds are processor time, so a busy machine does not change the result. `sandbox.PATIENCE` times as many clock
    seconds may pass, without waiting for a processor.
    """

    trials: int = 60
    seconds: float = 1.0

    def __post_init__(self) -> None:
        self._began = time.process_time()
        self._clock = sandbox.unhindered()

    @property
    def left(self) -> float:
        passed = sandbox.unhindered() - self._clock
        return min(self.seconds - (time.process_time() - self._began), sandbox.PATIENCE * self.seconds - passed)

    def spent(self) -> bool:
        return self.trials <= 0 or self.left <= 0


@dataclass
class Found:
    """The state that succeeded, or else the one that got furthest."""

    state: State
    text: str
    outcome: Outcome
    trials: int


Move = State
"""Slots that get another option."""


class Growth(dict[Slot, Option]):
    """A move that adds a missing name; if the code then lacks another one, that counts as progress."""


def search(
    starts: list[State],
    text_of: Callable[[State], str],
    attempt: Callable[[str, State], Outcome],
    moves: Callable[[State, Outcome], Iterable[Move]],
    budget: Budget,
    hopeless: Callable[[Outcome], bool] = lambda outcome: False,
) -> Found:
    """The first state whose attempt succeeds, within the budget; ``starts`` are tried before all others. Ends if the
    attempt that got furthest is ``hopeless``."""
    order = itertools.count()
    tried: set[str] = set()
    front: list[tuple[_Further, int, State, Outcome, Iterator[Move], int]] = []
    best: Found | None = None

    def visit(state: State, grown: int = 0) -> Found | None:
        nonlocal best
        text = text_of(state)
        if text in tried:
            return None
        tried.add(text)
        budget.trials -= 1
        outcome = attempt(text, state)
        found = Found(state, text, outcome, len(tried))
        if best is None or outcome.ok or outcome.progress > best.outcome.progress:
            best = found
        if outcome.ok:
            return found
        rest = iter(moves(state, outcome))
        if isinstance(outcome.error, (AttributeError, KeyError)):
            first = next(rest, None)
            if isinstance(first, Growth) and not budget.spent():
                # Progress does not matter: only the named item is missing.
                heapq.heappush(front, (_Further((outcome.progress, grown)), next(order), state, outcome, rest, grown))
                return visit({**state, **first}, grown + 1) or found
            rest = itertools.chain([first] if first is not None else [], rest)
        heapq.heappush(front, (_Further((outcome.progress, grown)), next(order), state, outcome, rest, grown))
        return found

    for start in starts:
        first = visit(start)
        if first is not None and first.outcome.ok:
            return first
    while front and not budget.spent() and not (best is not None and hopeless(best.outcome)):
        top = front[0]
        move = next(top[4], None)
        if move is None:
            heapq.heappop(front)
            continue
        found = visit({**top[2], **move}, top[5] + isinstance(move, Growth))
        if found is not None and found.outcome.ok:
            return found
    assert best is not None
    best.trials = len(tried)
    return best


class _Further:
    """Sorts states that got further to the front of a heap."""

    __slots__ = ("progress",)

    def __init__(self, progress: tuple[Any, ...]) -> None:
        self.progress = progress

    def __lt__(self, other: _Further) -> bool:
        return self.progress > other.progress

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Further) and self.progress == other.progress
