"""Shared by lower, bench and estimate: run one job on one model, show its progress, explain how it ended."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from fxlens.checking.checker import Surroundings, request_for
from fxlens.checking.files import CannotCheck, python_files
from fxlens.host.launch import Launch, find_python
from fxlens.host.model_job import run as run_job
from fxlens.host.outcome import Failed
from fxlens.ipc.protocol import Data
from fxlens.ipc.request import Limits
from fxlens.sources.files import read_source
from fxlens.sources.notebook import python_of

from . import options
from .progress import show_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="FILE[::CLASS]", help="a file and one of its models (default: the last)")
    options.add_worker_arguments(parser, deadline=600.0)


def printed(
    kind: str,
    arguments: argparse.Namespace,
    job_options: Data,
    report: Callable[[Mapping[str, Any]], object] = itemgetter("report"),
) -> Mapping[str, Any] | None:
    """The job's result, once it is printed: its text, or its report as JSON. None if a failure was printed."""
    try:
        result = _run(kind, arguments, job_options, report)
    except Failed as error:
        report_failure(error)
        return None
    if arguments.format == "json":
        json.dump(result["report"], sys.stdout, indent=2)
        print()
    else:
        print(result["text"])
    return result


def report_failure(error: Failed) -> int:
    """Print it; the exit status."""
    print(f"fxlens: {error}", file=sys.stderr)
    return 2


def _run(
    kind: str,
    arguments: argparse.Namespace,
    job_options: Data,
    report: Callable[[Mapping[str, Any]], object],
) -> Mapping[str, Any]:
    """The job's result, with its report as ``report``.

    Raises:
        Failed: the file, the model or the engine does not allow it, or the process died.
    """
    path, _, name = arguments.target.partition("::")
    try:
        files = python_files([path])
    except CannotCheck as error:
        raise Failed(str(error)) from None
    if len(files) != 1:
        raise Failed(f"{path} is not one Python file")
    folder = os.getcwd()
    launch = Launch(find_python(arguments.python, folder), folder, "spawn", whole=True)
    limits = Limits(deadline=arguments.deadline, memory=arguments.memory << 20)
    try:
        text, notebook = python_of(files[0], read_source(files[0]))
    except (OSError, SyntaxError, ValueError) as error:
        raise Failed(f"{files[0]} cannot be read: {getattr(error, 'strerror', None) or error}") from None

    async def run() -> Data:
        around = Surroundings()
        try:
            request = replace(await request_for(files[0], text, folder, around), limits=limits)
        finally:
            await around.close()
        return await run_job(launch, kind, request, name or None, job_options, show_progress)

    try:
        result = asyncio.run(run())
    except Failed as error:
        raise Failed(notebook.said(str(error)) if notebook else str(error)) from None
    if notebook is None:
        return {**result, "report": report(result)}
    return {**result, "text": notebook.said(str(result["text"])), "report": notebook.placed(report(result))}
