"""``fxlens record -- COMMAND…``: records how a program constructs and calls the modules of the workspace."""

from __future__ import annotations

import argparse
import os
import sys

from fxlens.host.launch import find_python
from fxlens.recording.run import classes, record
from fxlens.sources import recorded as examples
from fxlens.sources.notebook import is_notebook
from fxlens.sources.paths import relative

from . import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND…",
        help="a program, such as python train.py --epochs 1, or a notebook, whose code cells run in order",
    )
    parser.add_argument("--folder", default=".", help="the workspace whose classes are recorded (default: here)")
    parser.add_argument("--output", metavar="FILE", help=f"default: {examples.NAME} in the folder")
    parser.add_argument("--force", action="store_true", help="also replace a file that holds no examples")
    parser.add_argument(
        "--calls",
        type=options.count,
        default=0,
        metavar="N",
        help="interrupt the program after N calls of a whole model",
    )
    parser.epilog = (
        "The program runs unchanged. Shapes, dtypes and plain values are recorded, but no data and no weights. "
        "Exit status: that of the program, 2 if it could not be run."
    )


def run(arguments: argparse.Namespace) -> int:
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        print(
            "fxlens: no command to record; write one after --, as in: fxlens record -- python train.py", file=sys.stderr
        )
        return 2
    if not os.path.isdir(arguments.folder):
        print(f"fxlens: {arguments.folder}: no such folder", file=sys.stderr)
        return 2
    if is_notebook(program[0]):
        program = [find_python("", os.path.abspath(arguments.folder)), *program]
    output = arguments.output or os.path.join(arguments.folder, examples.NAME)
    try:
        result = record(program, arguments.folder, output, arguments.calls, arguments.force)
    except (OSError, ValueError) as error:
        print(f"fxlens: {error}", file=sys.stderr)
        return 2
    for note in result.notes:
        print(f"fxlens: {note}", file=sys.stderr)
    if result.recorded:
        print(f"fxlens: {classes(result.recorded)} recorded in {relative(output)}", file=sys.stderr)
    elif result.removed:
        print("fxlens: nothing recorded: the program removed the temporary folder with what was noted", file=sys.stderr)
    elif not result.attached:
        print(
            "fxlens: nothing recorded: no Python process of this command imported torch (interpreters that ignore "
            "PYTHONPATH, as with -I or -E, cannot be recorded)",
            file=sys.stderr,
        )
    else:
        print(f"fxlens: nothing recorded: no module of a class in {arguments.folder} was constructed", file=sys.stderr)
    return result.status
