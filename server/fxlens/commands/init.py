"""``fxlens init``: proposes ``[tool.fxlens.targets]`` for a repository, from what was determined about its classes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.record import Target
from fxlens.sources.paths import relative
from fxlens.sources.targets import ASKED
from fxlens.sources.toml_text import quoted
from fxlens.views.descriptions import where
from fxlens.views.terminal import one_line

from . import options

_WRITTEN = (*ASKED, "default", "instance")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="Python files, notebooks or folders (default: .)"
    )
    parser.add_argument("--jobs", type=options.count, default=os.cpu_count() or 1, metavar="N", help="files at a time")
    options.add_worker_arguments(parser)
    parser.epilog = "Prints a table for pyproject.toml. Nothing is written."


def run(arguments: argparse.Namespace) -> int:
    try:
        files = python_files(arguments.paths)
    except CannotCheck as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2
    chosen = Options(
        launch=options.launch(arguments),
        limits=options.limits(arguments),
        jobs=arguments.jobs,
        verify=False,
        light=True,
    )
    print("[tool.fxlens.targets]")
    for result in asyncio.run(_all(files, chosen)):
        for target in result.record["targets"]:
            print(_entry(result, target), end="")
    return 0


async def _all(files: list[str], chosen: Options) -> list[Checked]:
    return [result async for result in check(files, chosen)]


def _entry(result: Checked, target: Target) -> str:
    """One line of the table, with its source; empty if it is already configured."""
    made, inputs = target["construct"], target["inputs"]
    if made is None or made["source"] in _WRITTEN:
        return ""
    path = relative(result.path).replace(os.sep, "/")
    text = made["text"] + (f" <- {inputs['text']}" if inputs else "")
    key = quoted(f"{path}::{target['name']}")
    return f"{key} = {quoted(text)}  # {one_line(result.said(where(made)))}\n"
