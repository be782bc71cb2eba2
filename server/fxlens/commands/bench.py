"""``fxlens bench FILE[::Class]``: time a model and its variants in one interleaved run."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from fxlens.sources.files import read_bytes

from . import model_command, options

_MARK = b'class="fxlib-benchmark"'
"""Is at the start of each plot."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_command.add_arguments(parser)
    parser.add_argument(
        "--variants",
        nargs="+",
        metavar="NAME",
        help="variants to time besides eager (default: all that can run here)",
    )
    parser.add_argument("--without", nargs="+", metavar="NAME", default=[], help="variants to leave out")
    parser.add_argument(
        "--batch",
        type=options.count,
        nargs="+",
        metavar="N",
        dest="batches",
        help="batch sizes (default: that of the example inputs)",
    )
    parser.add_argument(
        "--threads", type=options.count, nargs="+", metavar="N", help="thread counts (default: all processors)"
    )
    parser.add_argument(
        "--rounds", type=options.count, default=15, metavar="N", help="samples of each variant (default 15)"
    )
    parser.add_argument(
        "--seconds", type=options.positive, default=60.0, help="time limit for each batch size (default 60)"
    )
    parser.add_argument(
        "--layers",
        type=options.count,
        default=10,
        metavar="N",
        help="how many of the slowest layers to list (default 10)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format (default text)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a plot to this file")
    parser.add_argument("--force", action="store_true", help="also replace a file that is not a plot of fxlens bench")


def run(arguments: argparse.Namespace) -> int:
    chosen = {
        name: getattr(arguments, name)
        for name in ("variants", "without", "batches", "threads", "rounds", "seconds", "layers")
    }
    svg: Path | None = arguments.svg
    if svg and svg.exists() and not arguments.force and _MARK not in _start(svg):
        hint = "Choose another file, or replace it with --force"
        print(f"fxlens: {svg} exists, and FX Lens did not write it. {hint}", file=sys.stderr)
        return 2
    if svg and not _written(svg, None):  # before anything is timed
        return 2
    result = model_command.printed("bench", arguments, chosen)
    if result is None:
        return 2
    if svg and not _written(svg, result["svg"]):
        return 2
    return 0


def _written(path: Path, text: str | None) -> bool:
    """Writes a file; without a text, only tries whether that is possible. If it is not, the reason is printed."""
    try:
        if text is not None:
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            target = Path(os.path.realpath(path))  # a link stays, even one to nothing
            target.touch(exist_ok=False)
            target.unlink()
        else:
            path.open("ab").close()
    except OSError as error:
        print(f"fxlens: {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _start(path: Path) -> bytes:
    with suppress(OSError):
        return read_bytes(str(path))[:200]
    return b""
