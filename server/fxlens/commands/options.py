"""Arguments that several commands share: interpreter, limits, target."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from fxlens.config.settings import Settings
from fxlens.host.launch import Launch, find_python
from fxlens.ipc.request import Limits

Number = TypeVar("Number", int, float)
_MOST = 10_000_000  # larger values overflow clocks and sizes of the system


def add_worker_arguments(parser: argparse.ArgumentParser, deadline: float = 30.0) -> None:
    group = parser.add_argument_group("how code is run")
    group.add_argument(
        "--python",
        default=os.environ.get("FXLENS_PYTHON", ""),
        metavar="PATH",
        help="interpreter that has torch (default: $FXLENS_PYTHON, else the active virtual environment or ./.venv)",
    )
    group.add_argument(
        "--deadline",
        type=positive,
        default=deadline,
        metavar="SECONDS",
        help=f"time limit for each step (default {deadline:.0f})",
    )
    group.add_argument(
        "--memory", type=count, default=Settings().memory, metavar="MIB", help="memory limit (default %(default)s MiB)"
    )
    group.add_argument(
        "--worker", choices=("auto", "fork", "spawn"), default="auto", help="how processes are started (default auto)"
    )


def launch(arguments: argparse.Namespace) -> Launch:
    folder = os.getcwd()
    return Launch(find_python(arguments.python, folder), folder, arguments.worker)


def limits(arguments: argparse.Namespace) -> Limits:
    return Limits(deadline=arguments.deadline, memory=arguments.memory << 20)


def positive(text: str) -> float:
    """Argument type: a number above 0."""
    return _above_0(text, float, "a number")


def count(text: str) -> int:
    """Argument type: a whole number above 0."""
    return _above_0(text, int, "a whole number")


def _above_0(text: str, kind: Callable[[str], Number], what: str) -> Number:
    with suppress(ValueError):
        if 0 < (value := kind(text)) <= _MOST:
            return value
    raise argparse.ArgumentTypeError(f"must be {what} above 0, and at most {_MOST:,}, not {text!r}")
