"""``fxlens check --ray``: one Ray task per file, for repositories with thousands of models.

Each Ray worker keeps one pool and gives it file after file. A task whose worker is lost is run again elsewhere. The
files and the interpreter must have the same paths on every node.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fxlens.host.pool import Pool

from . import checker
from .by_links import below_links
from .checker import Checked, Options
from .files import CannotCheck

_RETRIES = 5
_CONNECT_SECONDS = 10.0
_state: dict[str, Any] = {}


def check(files: list[str], options: Options, address: str) -> list[Checked]:
    """Results in the order of the files.  Raises CannotCheck if Ray is missing or the cluster cannot be reached.

    ``address`` is that of a running cluster; if empty, a local one of ``options.jobs`` workers is started and ended
    afterwards.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise CannotCheck("Ray is not installed: pip install 'fxlens[ray]'") from None
    if options.fix == "write":
        raise CannotCheck("--fix cannot be used with --ray: two tasks may edit one file")
    # Ray prints its own messages, and standard output belongs to the report.
    with contextlib.redirect_stdout(sys.stderr):
        return _run(ray, files, options, address)


def _run(ray: Any, files: list[str], options: Options, address: str) -> list[Checked]:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        if address:
            _reach(address)
            ray.init(address=address, **quiet)
        else:
            ray.init(num_cpus=options.jobs, include_dashboard=False, **quiet)
    except Exception as error:
        raise CannotCheck(f"no Ray cluster at {address or 'this machine'}: {error}") from None
    try:
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(check_here)
        alone = replace(options, jobs=1)
        linked = below_links(files)
        return ray.get([task.remote(path, alone, linked) for path in files])
    except ray.exceptions.RayError as error:
        raise CannotCheck(f"Ray failed: {error}") from None
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Ray itself tries for minutes.  Raises OSError if nothing listens at an address with a port."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def check_here(path: str, options: Options, linked: Sequence[str]) -> Checked:
    """One file, in the Ray worker that calls this; its pool is kept for the next file.  ``linked``: as in
    `Surroundings`."""
    if "loop" not in _state:
        _state["loop"] = asyncio.new_event_loop()
    if _state.get("launch") != options.launch:
        _state["launch"], _state["pool"] = options.launch, Pool(options.launch, once=True)
        _state["around"] = checker.Surroundings()
    _state["around"].linked = linked
    return _state["loop"].run_until_complete(checker.check_file(_state["pool"], path, options, _state["around"]))
