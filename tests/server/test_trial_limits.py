"""Trials of constructions and calls, and the time that they may take."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how long a thread has waited")
def test_a_search_and_a_trial_have_their_seconds_however_busy_the_machine_is(monkeypatch):
    from fxlens.worker.assume import sandbox
    from fxlens.worker.assume.search import Budget

    monkeypatch.setattr(sandbox, "PATIENCE", 2.0)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        with sandbox.trial(1):
            pass  # imports what the first one imports
        with sandbox.trial(0.2):
            start, clock, budget = time.process_time(), time.monotonic(), Budget(seconds=0.2)
            while time.process_time() - start < 0.15:
                pass
            assert time.monotonic() - clock > 0.4 and not budget.spent()
    finally:
        os.sched_setaffinity(0, before)
        for each in others:
            each.kill()
            each.wait()


def test_a_trial_that_sleeps_ends():
    from fxlens.worker.assume import sandbox

    clock = time.monotonic()
    with pytest.raises(sandbox.OutOfTime), sandbox.trial(0.05):
        time.sleep(60)
    assert time.monotonic() - clock < 30
