"""``fxlens serve``: the language server on standard input and output."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from . import ending

_LAST_SECONDS = 10.0
"""Seconds from the end of the input to the end of the server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="accepted for clients that pass it; the server always uses standard input and output",
    )
    parser.add_argument("--log-file", metavar="PATH", help="write the server's log here instead of standard error")
    parser.add_argument("--verbose", action="store_true", help="log every message")


def run(arguments: argparse.Namespace) -> int:
    from fxlens import outbox
    from fxlens.ipc import temporary

    # Neither messages nor the log may block the server if a client does not read them.
    log_box = None if arguments.log_file else outbox.to_log(os.dup(2))
    try:
        to: logging.Handler = logging.StreamHandler(log_box) if log_box else logging.FileHandler(arguments.log_file)
    except OSError as error:
        print(f"fxlens: {arguments.log_file}: {error.strerror}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[to],
    )
    # Standard output is reserved for the protocol: a stray print goes to the log.
    output = outbox.to_client(os.dup(1), log_box)
    os.dup2(2, 1)
    gc.disable()  # the protocol's types are many and permanent
    from fxlens.server import create

    server = create()
    gc.freeze()
    gc.enable()

    ending.at_once(lambda: output.close(1.0))
    if hasattr(faulthandler, "register"):
        # If a server does not answer, `kill -USR1` shows what it is doing.
        faulthandler.register(signal.SIGUSR1)

    def give_up() -> None:
        temporary.remove_all()
        os._exit(1)

    server.start_io(_Input(sys.stdin.buffer, server.end_from_thread, give_up), output)  # type: ignore[arg-type]
    output.close()
    if log_box is not None:
        log_box.close(1.0)
    return 0


# Header names are case-insensitive, but pygls would wait forever for its own spelling.
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d+)[ \t]*\r?\n", re.IGNORECASE)


class _Input:
    """The client's messages. At their end, running jobs are ended before pygls knows: pygls would cancel all tasks at
    once, and in asyncio of Python 3.11 a starting process then waits forever. The whole has a short time limit."""

    def __init__(self, stream: BinaryIO, end: Callable[[], None], give_up: Callable[[], None]) -> None:
        self._stream, self._end, self._give_up = stream, end, give_up

    def readline(self) -> bytes:
        line = self._seen(self._stream.readline())
        named = _LENGTH.fullmatch(line)
        return b"Content-Length: %b\r\n" % named[1] if named else line

    def read(self, size: int) -> bytes:
        return self._seen(self._stream.read(size))

    def _seen(self, data: bytes) -> bytes:
        if not data:
            timer = threading.Timer(_LAST_SECONDS, self._give_up)
            timer.daemon = True
            timer.start()
            self._end()
        return data
