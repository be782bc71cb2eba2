"""``fxlens stages FILE[::Class]``: a model traced, fused, exported and as ONNX, node by node."""

from __future__ import annotations

import argparse

from . import model_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument("--compare", action="store_true", help="run each stage, and compare every value with eager's")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    result = model_command.printed("stages", arguments, {"compare": arguments.compare})
    return 2 if result is None else 0
