"""Folders for what user code writes to ``tempfile``: they end with the process that wrote, however that ends.

Used by both sides, so standard library only.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

PREFIX = "fxlens-jobs-"


def make() -> str:
    """A folder that only this user can enter; an empty string where none can be made: jobs then get none."""
    try:
        return tempfile.mkdtemp(prefix=PREFIX)
    except OSError:
        return ""


def ours(folder: str) -> str:
    """The folder, if it is one that ``make`` made; else an empty string."""
    return folder if os.path.basename(folder).startswith(PREFIX) else ""


def of_job(folder: str, job: int) -> str:
    return os.path.join(folder, str(job)) if folder else ""


def enter(folder: str) -> None:
    """Makes the folder, and has this process and what it starts put its temporary files there."""
    if not folder:
        return
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        return
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        tempfile.tempdir = None  # what it found before


def remove(folder: str) -> None:
    """Removes the folder with all that is in it, where there is one; links are not followed."""
    if not folder:
        return
    if os.path.islink(folder):
        os.unlink(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
