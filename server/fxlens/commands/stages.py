"""``fxlens stages FILE[::Class]``: a model from its trace to an engine, stage by stage and node by node."""

from __future__ import annotations

import argparse

from . import model_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument("--compare", action="store_true", help="run each stage, and compare every value with eager's")
    parser.add_argument(
        "--quantize", action="store_true", help="quantize it to int8, with the example inputs as calibration data"
    )
    parser.add_argument("--engine", metavar="NAME", help="an engine that `fxlens engines` lists (default onnxruntime)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    chosen = {name: getattr(arguments, name) for name in ("compare", "quantize", "engine")}
    result = model_command.printed("stages", arguments, chosen)
    return 2 if result is None else 0
