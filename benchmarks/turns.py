"""Times of interleaved calls, so that other load affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from fxlib.benchmark import rest

__all__ = ["least_times"]


def least_times(calls: Mapping[str, Callable[[], Any]], seconds: float) -> tuple[dict[str, float], float]:
    """The minimum seconds of each call, from at least three each, and the largest ratio of a median to its minimum.

    Each call starts when the threads of the previous one are idle. If the ratio is far from 1, other programs ran: two
    threads then wait for each other, and a figure can be off by a large factor.
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
