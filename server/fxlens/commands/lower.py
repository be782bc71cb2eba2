"""``fxlens lower FILE[::Class]``: lower a model to an engine, list what stays in PyTorch, and save the result; with
``--preview`` only list it."""

from __future__ import annotations

import argparse

from . import model_command, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument("--engine", metavar="NAME", help="an engine that `fxlens engines` lists")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default fp32")
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="sizes may change: those that the file's dynamic_shapes name, or the first dimension of every input",
    )
    parser.add_argument("--threads", type=options.count, metavar="N", help="number of threads for one call")
    result = parser.add_mutually_exclusive_group()
    result.add_argument(
        "--preview", action="store_true", help="show what the engine would run and what stays in PyTorch; build nothing"
    )
    result.add_argument(
        "-o", "--out", metavar="DIR", help="save the lowered model in this folder (fxlib.lowering.load reads it)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="also save into a folder that holds other files, or a model that was edited",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    chosen = {
        name: getattr(arguments, name)
        for name in ("engine", "precision", "dynamic", "threads", "out", "force", "preview")
    }
    result = model_command.printed("lower", arguments, chosen)
    if result is None:
        return 2
    if result["saved"] and arguments.format == "text":
        print(f"saved in {result['saved']}")
    return 0
