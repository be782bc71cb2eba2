"""``fxlens engines``: the engines that models can be lowered to, and what is missing for each here."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from fxlens.answers import Engine
from fxlens.host.launch import Launch, find_python
from fxlens.host.outcome import Failed
from fxlens.host.pool import Pool
from fxlens.ipc.request import Request
from fxlens.jobs import engines

from . import model_command, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_worker_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    try:
        found = asyncio.run(_engines(arguments))
    except Failed as error:
        return model_command.report_failure(error)
    if arguments.format == "json":
        json.dump(found, sys.stdout, indent=2)
        print()
        return 0
    rows = [(each["name"], each["label"], each["runs_on"], ", ".join(each["precisions"])) for each in found]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row, engine in zip(rows, found, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([*cells, engine["missing"] or "available"]))
    return 0


async def _engines(arguments: argparse.Namespace) -> list[Engine]:
    folder = os.getcwd()
    pool = Pool(Launch(find_python(arguments.python, folder), folder, "spawn"), slots=1)
    try:
        return await engines.run(pool, Request("", "", folder, limits=options.limits(arguments)))
    finally:
        await pool.close()
