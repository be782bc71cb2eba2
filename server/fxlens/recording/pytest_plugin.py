"""``pytest -p fxlens.recording.pytest_plugin --fxlens-record``: the same recording inside a test run.

It is named on the command line, or in ``addopts``: if pytest found the plugin by itself, it would rewrite all asserts
of this package in every run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("fxlens")
    group.addoption(
        "--fxlens-record",
        action="store_true",
        help="record how the tests construct and call modules, in fxlens.examples.toml",
    )


def pytest_configure(config: Any) -> None:
    if config.getoption("--fxlens-record") and "FXLENS_RECORD_JOURNALS" not in os.environ:
        config.pluginmanager.register(_Recording(str(config.rootpath)), "fxlens-recording")


class _Recording:
    """Records this process; processes that the tests start record too, by the environment."""

    def __init__(self, folder: str) -> None:
        from fxlens.sources import recorded as examples

        from . import run
        from .agent import start

        self.folder, self.path = folder, os.path.join(folder, examples.NAME)
        self.tried = self.saved = False
        self.journals = run.journals_for(folder, self.path)
        os.environ.update(
            {k: v for k, v in run.environment(folder, self.journals, 0).items() if os.environ.get(k) != v}
        )
        start()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self._save(terminalreporter.write_line)

    def pytest_unconfigure(self) -> None:
        """Also called if no test was run, as with ``--help``, and without a summary: after an internal error."""
        from . import run
        from .agent import journal

        def say(line: str, **_: Any) -> None:
            print(line, file=sys.stderr)

        if not self.tried and journal.read(self.journals):
            self._save(say)
        if run.put_away(self.journals, self.saved):
            say("fxlens: the next recording of these tests saves what was noted")

    def _save(self, say: Callable[..., None]) -> None:
        from fxlens.sources import recorded as examples

        from . import run
        from .agent import journal

        self.tried = True
        notes = run.take_over(self.folder, self.path)
        found = examples.from_facts(journal.read(self.journals), self.folder)
        try:
            notes += run.save(self.path, found, self.folder) if found else []
        except (OSError, ValueError) as error:
            self.saved = isinstance(error, ValueError)  # in another file
            say(f"fxlens: {error}", red=True)
            return
        self.saved = True
        if found:
            notes.append(f"{run.classes(len(found))} recorded in {self.path}")
        elif not os.path.isdir(self.journals):
            notes.append("nothing recorded: the temporary folder with what was noted was removed")
        else:
            notes.append(f"nothing recorded: no module of a class in {self.folder} was constructed")
        for note in notes:
            say(f"fxlens: {note}")
