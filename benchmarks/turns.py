"""Times of calls that take turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from fxlib.benchmark import rest

__all__ = ["least_times"]


def least_times(calls: Mapping[str, Callable[[], Any]], seconds: float) -> tuple[dict[str, float], float]:
    """Least seconds of each call, at least three of each, and the largest ratio of a median to its least.

    Each starts when the threads of the one before are at rest. Where the ratio is far from 1 something else ran: two
    threads then wait for each other, and a figure can be wrong by many times.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for name, call in calls.items():
            rest()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    spread = max(statistics.median(values) / min(values) for values in times.values())
    return {name: min(values) for name, values in times.items()}, spread
