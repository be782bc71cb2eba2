"""Traces one file for a command that shows one model."""

from __future__ import annotations

import argparse
import asyncio
import sys

from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.checking.formats import render_text
from fxlens.record import Target
from fxlens.sources.notebook import Notebook

from . import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="FILE[::CLASS]", help="a file and one of its models (default: the last traced)"
    )
    options.add_worker_arguments(parser)


def trace(arguments: argparse.Namespace) -> tuple[Target, Notebook | None] | int:
    """The target's record, its findings on standard error, and its notebook, if any; or the exit status if there is no
    target."""
    path, _, name = arguments.target.partition("::")
    try:
        files = python_files([path])
    except CannotCheck as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2
    if len(files) != 1:
        print(f"fxlens: {path} is not one file", file=sys.stderr)
        return 2
    result = asyncio.run(_one(files[0], arguments))
    targets = [target for target in result.record["targets"] if not name or target["name"] == name]
    if not targets:
        known = ", ".join(target["name"] for target in result.record["targets"]) or "none"
        print(f"fxlens: {path} has no model{f' {name}' if name else ''}; its models: {known}", file=sys.stderr)
        if result.findings:
            render_text([result], sys.stderr, sys.stderr.isatty())
        return 2
    with_graph = [target for target in targets if target["nodes"]]
    target = (with_graph or targets)[-1]
    if target["status"] != "traced":
        print(f"fxlens: {target['name']} is {target['status']}: {target['reason']}", file=sys.stderr)
    return target, result.notebook


async def _one(path: str, arguments: argparse.Namespace) -> Checked:
    chosen = Options(launch=options.launch(arguments), limits=options.limits(arguments), verify=False)
    results = [result async for result in check([path], chosen)]
    return results[0]
