"""``fxlens check PATH…``: what stops torch.fx from tracing the models in files and folders."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from contextlib import suppress
from typing import TextIO

from fxlens.checking import baseline, statistics, watching
from fxlens.checking.baseline import Baseline
from fxlens.checking.cache import Cache
from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.checking.formats import FORMATS, diff
from fxlens.config.selection import Selection
from fxlens.config.settings import CAPTURES
from fxlens.views.terminal import exact, one_line, printable

from . import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Python files or folders")
    parser.add_argument("--format", choices=sorted(FORMATS), default="text", help="output format (default text)")
    parser.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")
    parser.add_argument(
        "--select", type=_codes, default=(), metavar="CODES", help="only these rules, such as FX1,FX206"
    )
    parser.add_argument("--ignore", type=_codes, default=(), metavar="CODES", help="leave these rules out")
    parser.add_argument(
        "--captures",
        type=_captures,
        default=(),
        metavar="CAPTURES",
        help="the captures that count: fx,export,compile; otherwise those of the project, else fx",
    )
    parser.add_argument(
        "--lowering",
        action="store_true",
        help="also report operators that an engine would leave in PyTorch (FX4)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="full severity for all classes, not only for those that are meant to be captured",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many files at a time (default: one per processor)",
    )
    parser.add_argument("--quick", action="store_true", help="do not check the fixes")
    parser.add_argument("--no-cache", action="store_true", help="also trace files that have not changed")
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run the files as tasks of a Ray cluster, or of a local one of --jobs workers (needs fxlens[ray])",
    )
    parser.add_argument("--baseline", metavar="FILE", help="findings that are known: only others are shown, and fail")
    parser.add_argument(
        "--write-baseline",
        action="store_true",
        help=f"make what is found now the baseline (default {baseline.NAME})",
    )
    parser.add_argument("--statistics", action="store_true", help="only how often each code was found")
    fixing = parser.add_mutually_exclusive_group()
    fixing.add_argument("--watch", action="store_true", help="check again whenever a file changes")
    fixing.add_argument("--diff", action="store_true", help="only show what the checked fixes would change")
    fixing.add_argument("--fix", action="store_true", help="apply the checked fixes to the files")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours of the text (default auto)"
    )
    options.add_worker_arguments(parser)
    parser.epilog = (
        "Exit status: 0 no errors (that the baseline does not have), 1 findings of severity error, 2 could not run, "
        "130 interrupted."
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        files = python_files(arguments.paths)
        known = _baseline(arguments)
        if arguments.statistics and arguments.format not in ("text", "json"):
            raise CannotCheck("--statistics are text or JSON")
        if arguments.watch and arguments.ray is not None:
            raise CannotCheck("--watch cannot be used with --ray")
        chosen = _chosen(arguments)
        if arguments.watch:
            return asyncio.run(_watch(arguments, chosen, known))
        if arguments.ray is not None:
            from fxlens.checking import on_ray

            results = on_ray.check(files, chosen, arguments.ray)
        else:
            results = asyncio.run(_all(files, chosen))
        if chosen.cache:
            chosen.cache.trim()
        return _report(results, arguments, known)
    except (CannotCheck, OSError) as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2


def _report(results: list[Checked], arguments: argparse.Namespace, known: Baseline | None) -> int:
    """Writes what was found; gives the exit status.  Raises OSError where that cannot be written."""
    not_run = any(finding["code"] == "FX309" for result in results for finding in result.findings)
    for result in results:
        for note in result.record["notes"]:
            print(f"fxlens: {note}", file=sys.stderr)
        for fix in result.fixed.applied if arguments.fix else ():
            changed = ", ".join(one_line(os.path.relpath(path)) for path in fix["files"])
            print(f"{changed}: fixed: {fix['title']}", file=sys.stderr)
    if known is not None and arguments.write_baseline and not not_run:
        number = known.take(results)
        known.write()
        print(f"fxlens: {number} finding{'' if number == 1 else 's'} in {known.path}", file=sys.stderr)
        return 0
    if known is not None:
        counted = Selection(arguments.select, arguments.ignore)
        for sentence in known.apply(results, counted.shows):
            print(f"fxlens: {printable(sentence)}", file=sys.stderr)
    if arguments.diff:
        out = sys.stdout if sys.stdout.isatty() else exact(sys.stdout)
        out.write("".join(diff(result) for result in results))
    elif not arguments.output:
        _write(results, exact(sys.stdout), arguments, _color(arguments))
    else:
        with open(arguments.output, "w", encoding="utf-8") as file:
            _write(results, file, arguments, arguments.color == "always")
    if not_run:
        return 2
    return 1 if any(result.failed for result in results) else 0


def _write(results: list[Checked], out: TextIO, arguments: argparse.Namespace, color: bool) -> None:
    if arguments.statistics:
        statistics.write(results, out, arguments.format == "json")
    else:
        FORMATS[arguments.format](results, out, color)


async def _watch(arguments: argparse.Namespace, chosen: Options, known: Baseline | None) -> int:
    """Reports after every change, until it is interrupted."""

    def files() -> list[str]:
        with suppress(CannotCheck):  # an editor that is saving a file may have removed it for a moment
            return python_files(arguments.paths)
        return []

    async for results in watching.rounds(files, chosen):
        _report(results, arguments, known)
        sys.stdout.flush()
        print(f"fxlens: checked at {time.strftime('%X')}; waits for changes, Ctrl+C ends", file=sys.stderr, flush=True)
    return 0


def _baseline(arguments: argparse.Namespace) -> Baseline | None:
    """The file of accepted findings, where one was named or is to be written.  Raises CannotCheck."""
    path = arguments.baseline or (baseline.NAME if arguments.write_baseline else "")
    if not path:
        return None
    return Baseline(path) if arguments.write_baseline and not os.path.exists(path) else Baseline.read(path)


def _chosen(arguments: argparse.Namespace) -> Options:
    launch = options.launch(arguments)
    return Options(
        launch=launch,
        cache=None if arguments.no_cache else Cache(launch.python),
        jobs=max(1, arguments.jobs),
        limits=options.limits(arguments),
        select=arguments.select,
        ignore=arguments.ignore,
        verify=not arguments.quick,
        lowering=arguments.lowering,
        scope="all" if arguments.all else "",
        captures=arguments.captures,
        light=True,
        named=tuple(arguments.paths),
        fix="write" if arguments.fix else "diff" if arguments.diff else "",
    )


async def _all(files: list[str], chosen: Options) -> list[Checked]:
    return [result async for result in check(files, chosen)]


def _color(arguments: argparse.Namespace) -> bool:
    if arguments.color != "auto":
        return arguments.color == "always"
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _captures(text: str) -> tuple[str, ...]:
    named = _codes(text)
    if unknown := [each for each in named if each not in CAPTURES]:
        raise argparse.ArgumentTypeError(f"there is no capture {unknown[0]!r}; there are {', '.join(CAPTURES)}")
    return named


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())
