"""``fxlens check PATH…``: what stops torch.fx from tracing the models in files and folders."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import sys

from fxlens.checking.cache import Cache
from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.checking.formats import FORMATS
from fxlens.config.settings import CAPTURES
from fxlens.views.terminal import exact, one_line

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
    fixing = parser.add_mutually_exclusive_group()
    fixing.add_argument("--diff", action="store_true", help="only show what the checked fixes would change")
    fixing.add_argument("--fix", action="store_true", help="apply the checked fixes to the files")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours of the text (default auto)"
    )
    options.add_worker_arguments(parser)
    parser.epilog = "Exit status: 0 no errors, 1 findings of severity error, 2 could not run."


def run(arguments: argparse.Namespace) -> int:
    try:
        files = python_files(arguments.paths)
    except CannotCheck as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2
    chosen = _chosen(arguments)
    if arguments.ray is not None:
        from fxlens.checking import on_ray

        try:
            results = on_ray.check(files, chosen, arguments.ray)
        except CannotCheck as error:
            print(f"fxlens: {error}", file=sys.stderr)
            return 2
    else:
        results = asyncio.run(_all(files, chosen))
    if chosen.cache:
        chosen.cache.trim()
    for result in results:
        for note in result.record["notes"]:
            print(f"fxlens: {note}", file=sys.stderr)
        for fix in result.fixed.applied if arguments.fix else ():
            changed = ", ".join(one_line(os.path.relpath(path)) for path in fix["files"])
            print(f"{changed}: fixed: {fix['title']}", file=sys.stderr)
    if arguments.diff:
        out = sys.stdout if sys.stdout.isatty() else exact(sys.stdout)
        out.write("".join(diff(result) for result in results))
    elif not arguments.output:
        FORMATS[arguments.format](results, exact(sys.stdout), _color(arguments))
    else:
        try:
            with open(arguments.output, "w", encoding="utf-8") as out:
                FORMATS[arguments.format](results, out, arguments.color == "always")
        except OSError as error:
            print(f"fxlens: {error}", file=sys.stderr)
            return 2
    if any(finding["code"] == "FX309" for result in results for finding in result.findings):
        return 2
    return 1 if any(result.failed for result in results) else 0


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


def diff(result: Checked) -> str:
    """What the fixes would change, as a unified diff that ``patch -p0`` and ``git apply`` take."""
    parts: list[str] = []
    for path, text in sorted(result.fixed.texts.items()):
        name = one_line(os.path.relpath(path))
        before = result.fixed.before[path].splitlines(keepends=True)
        parts += difflib.unified_diff(before, text.splitlines(keepends=True), name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)


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
