"""The ``fxlens`` command: reads the arguments, leaves the work to ``commands``."""

from __future__ import annotations

# isort: off
import fxlens.safe_path  # noqa: F401
import _signal

try:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `main`, an interrupt would show what is being imported
except ValueError:  # it is imported in another thread
    pass
# isort: on
import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .host import orphans
from .views.terminal import Unwritten, plain_streams, to_nowhere

COMMANDS = {
    "check": "find what stops torch.fx from tracing the models in files and folders",
    "graph": "print a model's graph",
    "code": "print the generated forward of a model",
    "lower": "lower a model to an inference engine",
    "engines": "list the engines that a model can be lowered to",
    "bench": "time a model and its variants",
    "estimate": "estimate the operations, memory and time of a model on a device",
    "stages": "show a model stage by stage, from its trace to an engine, with the error of each node",
    "init": "propose a configuration that says how the models of a repository are constructed",
    "record": "run a program and record how it constructs and calls its models",
    "mcp": "run a server for agents (Model Context Protocol) on standard input and output",
    "serve": "run the language server on standard input and output",
}
"""Each is a module in ``fxlens.commands`` with ``add_arguments(parser)`` and ``run(arguments) -> exit status``."""


class _Parser(argparse.ArgumentParser):
    """Prints errors as one sentence, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    try:
        if _signal.getsignal(_signal.SIGINT) is _signal.SIG_DFL:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        if hasattr(_signal, "SIGCHLD") and _signal.getsignal(_signal.SIGCHLD) is _signal.SIG_IGN:
            # Who started this may ignore the ends of its children; here they are waited for.
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        return _run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except OSError as error:
        if not isinstance(error, Unwritten) and error.errno != errno.ENOSPC:
            raise
        print(f"fxlens: {error.strerror}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            to_nowhere(sys.stdout)
        return 2


def _run(arguments: Sequence[str] | None) -> int:
    parser = _Parser(prog="fxlens", description="Can this PyTorch model be captured as a graph, and what is the graph?")
    parser.add_argument("--version", action="version", version=f"fxlens {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        # Only the command that runs is imported: `serve` must start fast, `check` needs no LSP.
        if name in given:
            importlib.import_module(f"fxlens.commands.{name}").add_arguments(command)
    parsed, unexpected = parser.parse_known_args(given)
    if unexpected:
        commands.choices[parsed.command].error(f"unexpected arguments: {' '.join(unexpected)}")
    try:
        os.getcwd()
    except FileNotFoundError:
        print("fxlens: the current directory no longer exists; change to another one", file=sys.stderr)
        return 2
    if sys.stdin is None and parsed.command in ("mcp", "serve"):
        print(f"fxlens: {parsed.command} listens to standard input, which is closed", file=sys.stderr)
        return 2
    if parsed.command != "record":  # it starts no workers, and what its program leaves is the system's
        orphans.adopt()
    with plain_streams():
        return importlib.import_module(f"fxlens.commands.{parsed.command}").run(parsed)
