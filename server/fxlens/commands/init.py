"""``fxlens init``: proposes ``[tool.fxlens.targets]`` for a repository, from what was determined about its classes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.record import Record, Target
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
    others: list[tuple[Record, str]] = []
    for result in results:
        remarks.say(result, said)
        targets = result.record["targets"]
        written = {target["name"]: entry for target in targets if (entry := _entry(result, target))}
        print(*written.values(), sep="", end="")
        entries += len(written)
        left = [target for target in targets if target["name"] not in written]
        if left or not targets:
            others.append(({**result.record, "targets": left}, result.text))
    sys.stdout.flush()  # what cannot be written is no result
    lost = {each["message"]: None for result in results if result.not_checked for each in result.findings}
    for message in lost:
        print(f"fxlens: {one_line(message)}", file=sys.stderr)
    print(f"fxlens: {_summary(entries, coverage(others))}", file=sys.stderr)
    return 2 if lost else 0


async def _all(files: list[str], chosen: Options) -> list[Checked]:
    return [result async for result in check(files, chosen)]


def _summary(entries: int, others: Coverage) -> str:
    """``12 entries for 20 classes; 5 need none; 3 without: 3 cannot be constructed``. ``others`` have no entry."""
    total = entries + others.total
    parts = [f"{entries} {'entry' if entries == 1 else 'entries'} for {total} {'class' if total == 1 else 'classes'}"]
    if others.judged:
        parts.append(f"{others.judged} need{'s' if others.judged == 1 else ''} none")
    if others.reasons:
        parts.append(f"{others.reasons.total()} without: {others.why_not()}")
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
