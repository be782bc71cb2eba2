"""What a check says of a file besides its findings."""

from __future__ import annotations

import sys

from fxlens.checking.checker import Checked
from fxlens.views.terminal import one_line


def say(result: Checked, said: set[str]) -> None:
    """Print a file's remarks to standard error, except those already ``said`` for another file, such as about their
    configuration."""
    notes = [*result.record["notes"]]
    if any(each["code"] == "FX309" for each in result.record["findings"]):
        notes.append("--python PATH names the interpreter that has torch and what the models need")
    for note in notes:
        if note not in said:
            print(f"fxlens: {one_line(note)}", file=sys.stderr)
            said.add(note)
