"""A second try for tests that drive other processes.

Where the machine stalls for seconds (two shared cores, a full disk cache), such a test can fail for no fault of the
product.  It is tried once more, and the summary lists it under ``RERUN``: what stands there is to be looked into, for a
race in the product looks just the same.  Tests within one process get no second try.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# An exception in a shape rule is a bug and not a reason to ask torch, here and in the processes that tests start.
os.environ["FXLIB_STRICT_SHAPES"] = "1"
# Examples are the same in every run, and none fails for being slow on a busy machine.
settings.register_profile("fxlens", deadline=None, derandomize=True)
settings.load_profile("fxlens")

HERE = Path(__file__).parent
PROCESSES = ("server", "faults", "editor", "examples", "fxlib/torch_compat", "fxlib/passes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).as_posix().startswith(PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
