"""``pytest -p fxlens.recording.pytest_plugin --fxlens-record``: the same recording inside a test run.

It is named on the command line, or in ``addopts``: if pytest found the plugin by itself, it would rewrite all asserts
of this package in every run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
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
        from . import run
        from .agent import start

        self.folder = folder
        self.journals = tempfile.mkdtemp(prefix="fxlens-record-")
        os.environ.update(
            {k: v for k, v in run.environment(folder, self.journals, 0).items() if os.environ.get(k) != v}
        )
        start()

    def pytest_unconfigure(self) -> None:
        """Also called if no test was run, as with ``--help``."""
        shutil.rmtree(self.journals, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from fxlens.sources import recorded as examples

        from . import run
        from .agent import journal

        found = examples.from_facts(journal.read(self.journals), self.folder)
        path = os.path.join(self.folder, examples.NAME)
        try:
            notes = run.save(path, found, self.folder) if found else []
        except (OSError, ValueError) as error:
            terminalreporter.write_line(f"fxlens: {error}", red=True)
            return
        for note in notes:
            terminalreporter.write_line(f"fxlens: {note}")
        terminalreporter.write_line(f"fxlens: {len(found)} class{'' if len(found) == 1 else 'es'} recorded in {path}")
