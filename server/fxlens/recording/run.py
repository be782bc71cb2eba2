"""Runs a program with the recorder in it, and writes down what it saw."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fxlens.sources import recorded as examples

from . import agent
from .agent import journal

_INJECT = Path(__file__).resolve().parent / "agent" / "inject"


@dataclass(frozen=True)
class Recording:
    """How a recorded program ended, and what the file of examples became.

    Attributes:
        status: the program's exit status, as a shell has it.
        attached: whether any process of it imported torch with the recorder in place.
        recorded: classes that this run saw.
        notes: what was dropped from the file.
    """

    status: int
    attached: bool
    recorded: int
    notes: list[str]


def record(command: Sequence[str], folder: str, output: str, calls: int = 0) -> Recording:
    """Run ``command`` as it is, and merge the examples it gave into the file ``output``.

    Args:
        folder: the workspace whose classes are noted.
        calls: interrupt the program after so many calls of an outermost module; 0: never.

    Raises:
        OSError: the program cannot be started, or the file cannot be written.
        ValueError: ``output`` exists and is no file of examples.
    """
    before = read(output)
    journals = tempfile.mkdtemp(prefix="fxlens-record-")
    try:
        status = _run(list(command), environment(folder, journals, calls))
        facts = journal.read(journals)
    finally:
        shutil.rmtree(journals, ignore_errors=True)
    found = examples.from_facts(facts, folder)
    notes = save(output, before, found, folder) if found else []
    return Recording(status, any(fact.get("event") == "attached" for fact in facts), len(found), notes)


def environment(folder: str, journals: str, calls: int) -> dict[str, str]:
    """The environment in which Python processes record."""
    path = [str(_INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        agent.FOLDER: os.path.abspath(folder),
        agent.JOURNALS: journals,
        agent.CALLS: str(calls),
    }


def read(path: str) -> examples.Examples:
    """The examples of a file; none where there is no file.  Raises ValueError where it is no file of examples."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        return examples.parse(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save(path: str, before: examples.Examples, found: examples.Examples, folder: str) -> list[str]:
    """Write both to the file at once; gives what was left out because it no longer fits."""
    kept, notes = examples.without_outdated(before, folder)
    text = examples.write(examples.merged(kept, found))
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        Path(temporary).write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return notes


def _run(command: list[str], env: dict[str, str]) -> int:
    if command[0] in ("python", "python3") and shutil.which(command[0]) is None:
        command = [sys.executable, *command[1:]]
    process = subprocess.Popen(command, env=env)
    try:
        status = process.wait()
    except KeyboardInterrupt:
        # The terminal has interrupted the program, too: it ends in its own time, and what it saw is kept.
        try:
            status = process.wait(30)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            status = process.wait()
    return 128 - status if status < 0 and -status in {int(known) for known in signal.Signals} else status
