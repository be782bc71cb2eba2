"""``fxlens check PATH…``: what stops torch.fx from tracing the models in files and folders."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import aclosing, closing, suppress
from dataclasses import replace
from typing import TextIO

from fxlens import rules
from fxlens.checking import baseline, by_links, patch, statistics, watching
from fxlens.checking.baseline import Baseline
from fxlens.checking.cache import Cache
from fxlens.checking.checker import Checked, Options, check
from fxlens.checking.files import CannotCheck, python_files
from fxlens.checking.formats import FORMATS
from fxlens.config.project import is_configuration
from fxlens.config.selection import Selection
from fxlens.config.settings import CAPTURES, Settings
from fxlens.sources.paths import is_within, relative
from fxlens.views.fixes import only_assumed
from fxlens.views.terminal import Unwritten, exact, one_line, or_unwritten, printable

from . import options, remarks
from .progress import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Python files, notebooks or folders")
    parser.add_argument("--format", choices=sorted(FORMATS), default="text", help="output format (default text)")
    parser.add_argument("--output", metavar="FILE", help="write to this file instead of standard output")
    parser.add_argument(
        "--select", type=_rules, default=(), metavar="CODES", help="only these rules, such as FX1,FX206"
    )
    parser.add_argument("--ignore", type=_rules, default=(), metavar="CODES", help="not these rules")
    parser.add_argument(
        "--captures",
        type=_captures,
        default=(),
        metavar="CAPTURES",
        help="captures to check: fx,export,compile,strict (default: those of the project, else fx)",
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
        type=options.count,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many files at a time (default: one per processor)",
    )
    parser.add_argument("--quick", action="store_true", help="do not verify fixes or compare models with their graphs")
    parser.add_argument("--no-cache", action="store_true", help="trace unchanged files again")
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="run on a Ray cluster, or on a local one with --jobs workers (needs fxlens[ray])",
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="known findings: only new ones are shown and make the check fail"
    )
    parser.add_argument(
        "--write-baseline",
        action="store_true",
        help=f"save the current findings as the baseline, to --baseline FILE (default {baseline.NAME})",
    )
    parser.add_argument("--statistics", action="store_true", help="print only how often each code occurs")
    fixing = parser.add_mutually_exclusive_group()
    fixing.add_argument("--watch", action="store_true", help="check again whenever a file changes")
    fixing.add_argument(
        "--diff", action="store_true", help="only show the changes of the checked fixes, or write them to --output"
    )
    fixing.add_argument("--fix", action="store_true", help="apply the checked fixes to the files")
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix or --diff: also fixes that assume what the code does not say, such as that x is a tensor",
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours of the text (default auto)"
    )
    options.add_worker_arguments(parser)
    parser.epilog = (
        "Exit status: 0 no errors outside the baseline, 1 findings of severity error, 2 could not run, 130 interrupted."
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        files = python_files(arguments.paths)
        known = _baseline(arguments)
        if arguments.statistics and arguments.format not in ("text", "json"):
            raise CannotCheck("--statistics works with --format text or json only")
        if arguments.diff and (arguments.format != "text" or arguments.statistics):
            raise CannotCheck("--diff shows a patch and no report: leave out --format and --statistics")
        if arguments.write_baseline and (
            arguments.output or arguments.format != "text" or arguments.statistics or arguments.diff
        ):
            raise CannotCheck(
                "--write-baseline writes no report: leave out --output, --format, --statistics and --diff"
            )
        if arguments.output and is_within(arguments.output, files):
            raise CannotCheck(f"{arguments.output} is one of the files to check; --output would replace it")
        if arguments.output and _is_no_report(arguments.output, known):
            raise CannotCheck(
                f"{arguments.output} is a source, a configuration or the baseline; --output would replace it"
            )
        if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
            raise CannotCheck("--unsafe-fixes works with --fix or --diff only")
        if arguments.watch and arguments.ray is not None:
            raise CannotCheck("--watch cannot be used with --ray")
        chosen = _chosen(arguments)
        if arguments.watch:
            return asyncio.run(_watch(arguments, chosen, known))
        if known is not None and not arguments.write_baseline:
            chosen = replace(chosen, accepted=known.accepted())
        if arguments.ray is not None:
            from fxlens.checking import on_ray

            status = _report(on_ray.check(files, chosen, arguments.ray), arguments, known)
        else:
            # Closed in any case: at the end of the program it could no longer wait for its processes.
            with closing(_stream(files, chosen)) as results:
                status = _report(results, arguments, known)
        if chosen.cache:
            chosen.cache.trim()
        return status
    except (BrokenPipeError, Unwritten):
        raise
    except (CannotCheck, OSError) as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2


def _is_no_report(path: str, known: Baseline | None) -> bool:
    """Whether naming an existing file for the report is probably a mistake."""
    if not os.path.exists(path):
        return False
    real = os.path.realpath(path)
    named = real.endswith((".py", ".ipynb")) or is_configuration(real) or os.path.basename(real) == baseline.NAME
    return named or (known is not None and is_within(path, [known.path]))


def _report(results: Iterable[Checked], arguments: argparse.Namespace, known: Baseline | None) -> int:
    """Writes the results, one by one unless a baseline needs all of them first; returns the exit status. Raises OSError
    if writing fails."""
    failed = not_run = False
    said: set[str] = set()
    assumed = 0

    def noted(out: TextIO | None = None) -> Iterator[Checked]:
        nonlocal failed, not_run, assumed
        for result in by_links.once(results):
            not_run = not_run or result.not_checked
            remarks.say(result, said)
            if arguments.fix:
                _say_fixed(result)
            yield result
            failed = failed or result.failed
            assumed += sum(map(only_assumed, result.shown))
            if out is not None:
                out.flush()

    if known is not None:
        results = list(noted())
        counted = Selection(arguments.select, arguments.ignore)
        if arguments.write_baseline and not not_run:
            number = Baseline.update(known.path, results, counted.shows)
            print(f"fxlens: {number} finding{'' if number == 1 else 's'} in {known.path}", file=sys.stderr)
            return 0
        for sentence in known.apply(results, counted.shows):
            print(f"fxlens: {printable(sentence)}", file=sys.stderr)
        failed = any(result.failed for result in results)

    def told(out: TextIO) -> Iterable[Checked]:
        return results if known is not None else noted(out)

    if arguments.diff and arguments.output:
        parts = b"".join(_patches(told(sys.stdout)))
        with open(arguments.output, "wb") as written:
            written.write(parts)
    elif arguments.diff:
        _show_patches(told(sys.stdout))
    elif not arguments.output:
        out = exact(sys.stdout)
        _write(told(out), out, arguments, _color(arguments))
    elif arguments.format == "text":
        with open(arguments.output, "w", encoding="utf-8") as file:
            _write(told(file), file, arguments, arguments.color == "always")
    else:  # the old report stays if this one is interrupted
        whole = io.StringIO()
        _write(told(whole), whole, arguments, False)
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(whole.getvalue())
    if assumed and arguments.fix and not arguments.unsafe_fixes:
        problems = f"{assumed} problem{'' if assumed == 1 else 's'}"
        print(
            f"fxlens: {problems} left whose fixes assume what the code does not say; --unsafe-fixes applies them",
            file=sys.stderr,
        )
    return 2 if not_run else 1 if failed else 0


def _patches(results: Iterable[Checked]) -> Iterator[bytes]:
    """A file has one part, since a second one would not apply after the first. One that a patch cannot change
    has none."""
    written: dict[str, bytes] = {}
    for result in results:
        for path, part in result.patches.items():
            if (why := patch.why_not(path, result.path)) is not None:
                print(why, file=sys.stderr)
            elif written.setdefault(path, part) != part:
                print(f"{one_line(relative(path))}: has more fixes: apply these, and check again", file=sys.stderr)
            elif written[path] is part:
                yield part


def _show_patches(results: Iterable[Checked]) -> None:
    for part in _patches(results):
        if sys.stdout.isatty():
            sys.stdout.write(part.decode("utf-8", "backslashreplace"))
        else:
            with or_unwritten():
                exact(sys.stdout).buffer.write(part)


def _say_fixed(result: Checked) -> None:
    for fix in result.fixed.applied:
        changed = ", ".join(one_line(relative(path)) for path in fix["files"])
        print(f"{changed}: fixed: {fix['title']}", file=sys.stderr)


def _write(results: Iterable[Checked], out: TextIO, arguments: argparse.Namespace, color: bool) -> None:
    if arguments.statistics:
        statistics.write(results, out, arguments.format == "json")
    else:
        FORMATS[arguments.format](results, out, color)


async def _watch(arguments: argparse.Namespace, chosen: Options, known: Baseline | None) -> int:
    """Reports after every change, until it is interrupted."""

    def files() -> list[str]:
        with suppress(CannotCheck):  # an editor may remove a file briefly while saving
            return python_files(arguments.paths)
        return []

    def options() -> Options:
        nonlocal known
        if known is None or arguments.write_baseline:
            return chosen
        try:
            known = Baseline.read(known.path)
        except CannotCheck as error:  # an editor may be saving it, or git merging: the last one counts
            print(f"fxlens: {error}", file=sys.stderr)
        return replace(chosen, accepted=known.accepted())

    also = [arguments.baseline] if arguments.baseline and not arguments.write_baseline else []
    async with aclosing(watching.rounds(files, options, also)) as rounds:  # also if the output is not read
        async for results in rounds:
            _report(results, arguments, known)
            sys.stdout.flush()
            now = time.strftime("%X")
            print(f"fxlens: checked at {now}; waiting for changes (Ctrl+C stops)", file=sys.stderr, flush=True)
    return 0


def _baseline(arguments: argparse.Namespace) -> Baseline | None:
    """The baseline, if one was named or is to be written. Raises CannotCheck."""
    path = arguments.baseline or (baseline.NAME if arguments.write_baseline else "")
    if not path:
        return None
    return Baseline(path) if arguments.write_baseline and not os.path.exists(path) else Baseline.read(path)


def _chosen(arguments: argparse.Namespace) -> Options:
    launch = options.launch(arguments)
    return Options(
        launch=launch,
        cache=None if arguments.no_cache else Cache(launch),
        jobs=arguments.jobs,
        limits=options.limits(arguments),
        settings=Settings(select=arguments.select, ignore=arguments.ignore, captures=arguments.captures),
        verify=not arguments.quick,
        lowering=arguments.lowering,
        scope="all" if arguments.all else "",
        light=arguments.format != "html",  # the page shows drawings
        named=tuple(arguments.paths),
        fix="write" if arguments.fix else "diff" if arguments.diff else "",
        unsafe=arguments.unsafe_fixes,
    )


def _stream(files: list[str], chosen: Options) -> Generator[Checked]:
    """The results in the order of the files, each as soon as available, with a progress display."""
    loop = asyncio.new_event_loop()
    count = Count(len(files))
    checked = check(files, chosen, count.done)
    waiting: asyncio.Future[Checked] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(checked), loop=loop)
            result = loop.run_until_complete(waiting)
            count.clear()
            yield result
    except StopAsyncIteration:
        count.clear()
    finally:
        if waiting is not None and not waiting.done():
            waiting.cancel()
            loop.run_until_complete(asyncio.wait([waiting]))
        loop.run_until_complete(checked.aclose())
        loop.close()


def _color(arguments: argparse.Namespace) -> bool:
    if arguments.color != "auto":
        return arguments.color == "always"
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _captures(text: str) -> tuple[str, ...]:
    named = _codes(text)
    if unknown := [each for each in named if each not in CAPTURES]:
        raise argparse.ArgumentTypeError(f"unknown capture {unknown[0]!r}; choose from {', '.join(CAPTURES)}")
    return named


def _rules(text: str) -> tuple[str, ...]:
    named = _codes(text)
    if unknown := rules.unknown(named):
        raise argparse.ArgumentTypeError(f"no rule code begins with {unknown[0]!r}")
    return named


def _codes(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())
