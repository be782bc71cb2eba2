"""``fxlens estimate FILE[::Class]``: operations, memory and roofline time of a model on a named device."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from . import model_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument(
        "--device", metavar="NAME", help="v100, a100, h100, …, or cpu, which is measured now (default: no times)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    result = model_command.printed("estimate", arguments, {"device": arguments.device}, _report)
    return 2 if result is None else 0


def _report(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("target", "device", "totals", "nodes")}
