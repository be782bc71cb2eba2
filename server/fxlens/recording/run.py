"""Runs a program with the recorder in it, and writes its results."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fxlens.ipc import processes, temporary
from fxlens.sources import recorded as examples
from fxlens.sources.files import Changed, read_bytes, read_source, write_after, write_source
from fxlens.sources.notebook import is_notebook, python_of

from . import agent
from .agent import journal

_TRIES = 5
_PURPOSE = "recording.json"
"""In a folder of journals: the workspace, and the file of examples."""
_AGENT = Path(__file__).resolve().parent / "agent"


@dataclass(frozen=True)
class Recording:
    """How a recorded program ended, and the result in the file of examples.

    Attributes:
        status: the program's exit status, as in a shell.
        attached: whether any process of it imported torch with the recorder in place.
        removed: whether the program removed the recorded facts.
        recorded: classes that this run saw.
        notes: entries dropped from the file, and skipped cells of a notebook.
    """

    status: int
    attached: bool
    removed: bool
    recorded: int
    notes: list[str]


def record(command: Sequence[str], folder: str, output: str, calls: int = 0, force: bool = False) -> Recording:
    """Run ``command`` as it is, and merge its examples into the file ``output``. If it runs Python on a notebook, the
    code cells are run in order.

    Args:
        folder: the workspace whose classes are recorded.
        calls: interrupt the program after so many calls of an outermost module; 0: never.
        force: ``output`` may be an empty file of any name.

    Raises:
        OSError: the program cannot be started, or nothing can be written.
        ValueError: ``output`` exists and is not a file of examples, or cannot be written: then another one is named.
    """
    read(output, ours=force)
    notes = take_over(folder, output)
    journals = journals_for(folder, output)
    cwd, saved = None, False
    try:
        if len(command) > 1 and is_notebook(command[1]):
            cwd = os.path.dirname(os.path.abspath(command[1]))  # as its kernel would
            command, skipped = _of_cells(command[0], os.path.abspath(command[1]), journals)
            notes += skipped
        status = _run(list(command), environment(folder, journals, calls), cwd)
        removed = not os.path.isdir(journals)
        facts = journal.read(journals)
        found = examples.from_facts(facts, folder)
        notes += save(output, found, folder) if found else []
        saved = True
    except ValueError:
        saved = True
        raise
    finally:
        if put_away(journals, saved):
            print("fxlens: the next recording with this folder and file saves what was noted", file=sys.stderr)
    attached = any(fact.get("event") == "attached" for fact in facts)
    return Recording(status, attached, removed, len(found), notes)


def journals_for(folder: str, output: str) -> str:
    """A folder for journals, which says what they are for, so that the next recording takes them over if this process
    is killed."""
    journals = temporary.held(temporary.RECORDS)
    with open(os.path.join(journals, _PURPOSE), "w", encoding="utf-8") as file:
        json.dump(_purpose(folder, output), file)
    return journals


def put_away(journals: str, saved: bool) -> bool:
    """Removes the folder, or leaves what is not ``saved`` to the next recording; returns whether that is so."""
    if saved or all(fact.get("event") == "attached" for fact in journal.read(journals)):
        temporary.remove(journals)
        return False
    temporary.leave(journals)
    return True


def take_over(folder: str, output: str) -> list[str]:
    """Saves what killed recordings with the same folder and file have noted; returns remarks."""
    notes = []
    for journals in temporary.of_killed(temporary.RECORDS, _PURPOSE):
        try:
            if json.loads(read_bytes(os.path.join(journals, _PURPOSE))) != _purpose(folder, output):
                continue
            found = examples.from_facts(journal.read(journals), folder)
            notes += save(output, found, folder) if found else []
            notes.append(f"{classes(len(found))} saved that a recording had noted before it was killed")
        except OSError as error:
            notes.append(str(error))
            continue
        except ValueError as error:  # what was noted is in another file
            notes.append(str(error))
        temporary.remove(journals)
    return notes


def classes(number: int) -> str:
    return f"{number} class{'' if number == 1 else 'es'}"


def _purpose(folder: str, output: str) -> list[str]:
    return [os.path.realpath(folder), os.path.realpath(output)]


def _of_cells(python: str, path: str, folder: str) -> tuple[list[str], list[str]]:
    """The command that runs a notebook's cells, written into the folder, and remarks about them."""
    try:
        _, notebook = python_of(path, read_source(path))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    programs = notebook.programs() if notebook else []
    cells = os.path.join(folder, "cells.json")
    with open(cells, "w", encoding="utf-8") as file:
        json.dump(programs, file)
    broken = [notebook.place(line)[0] for line, _, _ in notebook.broken] if notebook else []
    notes = [f"cell {number} was not run: Python cannot parse it" for number in broken]
    python = os.path.abspath(python) if os.path.dirname(python) else python
    return [python, str(_AGENT / "cells.py"), cells, path], notes


def environment(folder: str, journals: str, calls: int) -> dict[str, str]:
    """The environment in which Python processes record."""
    path = [str(_AGENT / "inject"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        agent.FOLDER: os.path.abspath(folder),
        agent.JOURNALS: journals,
        agent.CALLS: str(calls),
    }


def read(path: str, ours: bool = True) -> examples.Examples:
    """The examples of a file; none if there is no file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a file of examples; an empty one counts only if it is known to be ``ours``.
    """
    try:
        text = read_bytes(path, examples.MOST_BYTES).decode("utf-8")
        found = examples.parse(text)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not found and not ours and not text.startswith(examples.HEADER) and os.path.basename(path) != examples.NAME:
        raise ValueError(f"{path} exists and holds no examples. Choose another file, or add --force to replace it")
    return found


def save(path: str, found: examples.Examples, folder: str) -> list[str]:
    """Merges the examples into the current file; returns those dropped because they no longer fit.

    Raises:
        OSError, ValueError: the file cannot be read any more, or written. The examples are then saved in another file,
            named in the message.
    """
    try:
        for _ in range(_TRIES):
            before = read_source(path) if os.path.exists(path) else None
            kept, notes = examples.without_outdated(read(path), folder)
            with contextlib.suppress(Changed):
                text = examples.write(examples.merged(kept, found), before or "")
                if before is None:
                    write_after(path, None, text.encode())
                else:
                    write_source(path, before, text)
                return notes
        raise OSError(f"another process is writing {path}")
    except (OSError, ValueError, SyntaxError) as error:
        handle, other = tempfile.mkstemp(prefix="fxlens.examples-", suffix=".toml")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(examples.write(found))
        raise ValueError(f"{error}. What was recorded is in {other}") from error


def _run(command: list[str], env: dict[str, str], cwd: str | None) -> int:
    if command[0] in ("python", "python3") and shutil.which(command[0]) is None:
        command = [sys.executable, *command[1:]]
    # The program ends if this process is killed.
    early = partial(processes.die_with_parent, os.getpid()) if sys.platform == "linux" else None
    process = subprocess.Popen(command, env=env, cwd=cwd, preexec_fn=early)
    before = _pass_on(process)
    try:
        status = process.wait()  # after an interrupt, too: it ends in its own time, and its recording is kept
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 and -status in {int(known) for known in signal.Signals} else status


def _pass_on(process: subprocess.Popen[bytes]) -> dict[int, Any]:
    """Forward signals to the program, so that its recording is kept. Returns the former handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    again = False

    def interrupt(number: int, _: object) -> None:
        nonlocal again
        if sys.platform != "win32" and (again or not _is_in_front(process.pid)):
            process.send_signal(number)
        again = True  # a second one may be meant for this process alone

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {each: signal.signal(each, lambda number, _: process.send_signal(number)) for each in wanted}
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    return before


def _is_in_front(pid: int) -> bool:
    """Whether a process is in the foreground of the terminal, which then interrupts it, too."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgid(pid)
    except OSError:
        return False
    finally:
        os.close(terminal)
