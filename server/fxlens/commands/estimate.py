"""``fxlens estimate FILE[::Class]``: operations, memory and roofline time of a model on a named device."""

from __future__ import annotations

import argparse
import json
import sys

from . import model_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument(
        "--device", metavar="NAME", help="v100, a100, h100, …, or cpu, which is measured now (default: no times)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    try:
        result = model_command.run("estimate", arguments, {"device": arguments.device})
    except model_command.Failed as error:
        return model_command.report_failure(error)
    if arguments.format == "json":
        json.dump({name: result[name] for name in ("target", "device", "totals", "nodes")}, sys.stdout, indent=2)
        print()
    else:
        print(result["text"])
    return 0
