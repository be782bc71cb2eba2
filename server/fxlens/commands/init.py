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
from fxlens.views.coverage import Coverage, coverage
from fxlens.views.descriptions import where
from fxlens.views.terminal import one_line

from . import options, remarks

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
    results = asyncio.run(_all(files, chosen))
    said: set[str] = set()
    entries = 0
    for result in results:
        remarks.say(result, said)
        for target in result.record["targets"]:
            entry = _entry(result, target)
            entries += entry != ""
            print(entry, end="")
    sys.stdout.flush()  # what cannot be written is no result
    lost = {each["message"]: None for result in results if result.not_checked for each in result.findings}
    for message in lost:
        print(f"fxlens: {one_line(message)}", file=sys.stderr)
    print(f"fxlens: {_summary(entries, coverage((each.record, each.text) for each in results))}", file=sys.stderr)
    return 2 if lost else 0


async def _all(files: list[str], chosen: Options) -> list[Checked]:
    return [result async for result in check(files, chosen)]


def _summary(entries: int, found: Coverage) -> str:
    """``12 entries for 20 classes; 5 need none; 3 without: 3 cannot be constructed``."""
    classes = f"{found.total} {'class' if found.total == 1 else 'classes'}"
    parts = [f"{entries} {'entry' if entries == 1 else 'entries'} for {classes}"]
    if (plain := found.judged - entries) > 0:
        parts.append(f"{plain} need{'s' if plain == 1 else ''} none")
    if found.reasons:
        parts.append(f"{found.reasons.total()} without: {found.why_not()}")
    return "; ".join(parts)


def _entry(result: Checked, target: Target) -> str:
    """One line of the table, with its source; empty if it is already configured."""
    made, inputs = target["construct"], target["inputs"]
    if made is None or made["source"] in _WRITTEN:
        return ""
    path = relative(result.path).replace(os.sep, "/")
    text = made["text"] + (f" <- {inputs['text']}" if inputs else "")
    key = quoted(f"{path}::{target['name']}")
    return f"{key} = {quoted(text)}  # {one_line(result.said(where(made)))}\n"
