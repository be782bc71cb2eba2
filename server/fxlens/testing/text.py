"""The text of a failed assertion: the findings as ``fxlens check`` shows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from fxlens import record
from fxlens.checking.checker import Checked
from fxlens.checking.formats import finding_text
from fxlens.record import Finding
from fxlens.sources.files import read_shown
from fxlens.sources.paths import key, relative


def failure_text(model: Any, failures: Iterable[str], findings: Iterable[Any]) -> str:
    """A line for each violated requirement, then each finding with its source line."""
    from fxlens.worker import render
    from fxlib.diagnosis import fixes

    name = getattr(model, "__name__", type(model).__name__)
    lines = [f"{name} is not captured as required:", *(f"  {each}" for each in failures)]
    parts = []
    home = _home(model)
    for each in findings:
        proposals = [render.fix(fix) for fix in fixes.propose(each)]
        finding = render.finding(each, name, proposals)
        parts.append(finding_text(_file_of(finding, home), finding))
    return "\n".join([*lines, "", *parts]).rstrip()


def _file_of(finding: Finding, home: str) -> Checked:
    """The file that a finding is shown in: that of the model if its call path leads there, otherwise its own."""
    steps = [each for each in [finding["span"], *reversed(finding["call_path"])] if each is not None]
    own = [each["file"] for each in steps if home and key(each["file"]) == key(home)]
    path = (own or [each["file"] for each in steps] or [home])[0]
    near = relative(path)
    shown = path if near.startswith("..") else near
    return Checked(shown, read_shown(path), record.empty_record(path), [finding])


def _home(model: Any) -> str:
    """The file that defines the model; empty if there is none."""
    try:
        return inspect.getsourcefile(inspect.unwrap(getattr(type(model), "forward", model))) or ""
    except TypeError:
        return ""
