"""Waiting until the threads of one variant sleep before the next one is timed."""

from __future__ import annotations

import os
import threading
import time

STEP_S = 0.002
LOOKS = 3
"""A pool is idle when it was seen so this often in a row: a thread may sleep for a moment between two tasks."""


def rest(limit: float = 1.0) -> bool:
    """Wait until no other thread of this process runs; False if one still does after `limit` seconds.

    The threads of a pool spin for a while after the last task: OpenMP's for some milliseconds, those of ONNX Runtime
    for a tenth of a second. They occupy cores meanwhile: with two threads, a session measured right after one that
    spins was 13 to 17 % slower than after a pause.
    """
    until = time.perf_counter() + limit
    seen = 0
    while seen < LOOKS:
        if time.perf_counter() > until:
            return False
        seen = 0 if _at_work() else seen + 1
        time.sleep(STEP_S)
    return True


def _at_work() -> bool:
    """Whether another thread of this process runs, or would if a core were free."""
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return _uses_time()
    own = str(threading.get_native_id())
    for thread in threads:
        if thread == own:
            continue
        try:
            with open(f"/proc/self/task/{thread}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue  # the thread ended
        if text[text.rindex(b")") + 2 :].startswith(b"R"):
            return True
    return False


def _uses_time() -> bool:
    """The same, measured by the processor time used while this thread sleeps."""
    start, used = time.perf_counter(), time.process_time()
    time.sleep(5 * STEP_S)
    return time.process_time() - used > 0.2 * (time.perf_counter() - start)
