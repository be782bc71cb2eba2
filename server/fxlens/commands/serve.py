"""``fxlens serve``: the language server on standard input and output."""

from __future__ import annotations

import argparse
import logging
import os
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="accepted for clients that pass it; it is the only way")
    parser.add_argument("--log-file", metavar="PATH", help="write the server's log here instead of standard error")
    parser.add_argument("--verbose", action="store_true", help="log every message")


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        **({"filename": arguments.log_file} if arguments.log_file else {"stream": sys.stderr}),
    )
    # The protocol keeps standard output for itself: a stray print anywhere goes to the log.
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    from fxlens.server import create

    create().start_io(sys.stdin.buffer, output)
    return 0
