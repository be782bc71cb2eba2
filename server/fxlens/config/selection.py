"""Which findings are shown, and with which severity: settings, project configuration and ``# fxlens: ignore``
comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from fxlens.not_judged import NOT_JUDGED
from fxlens.record import Finding, Severity
from fxlens.sources import targets

from .settings import SEVERITIES


@dataclass(frozen=True)
class Selection:
    """Codes are matched by prefix: ``FX2`` is every silent finding. The longest match decides; on a tie, ignore
    wins. What says that code was not judged needs no selection: without it a check would pass."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = field(default_factory=dict)
    captures: tuple[str, ...] = ("fx",)
    """The captures that count; a problem of the others alone is information."""
    accepted: Sequence[Sequence[str]] = ()
    """Codes and lines of a baseline, the lines without their blanks; their fixes are not applied."""

    def accepts(self, code: str, line: str) -> bool:
        source = " ".join(line.split())
        return any(code == accepted and source == known for accepted, known in self.accepted)

    def shows(self, code: str) -> bool:
        chosen = _longest(code, self.select or ("",))
        if chosen is None and code in NOT_JUDGED:
            chosen = 0
        ignored = _longest(code, self.ignore)
        if chosen is None:
            return False
        return ignored is None or chosen > ignored

    def of(self, finding: Finding) -> str:
        """The severity of a finding."""
        severity: str = finding["severity"]
        if finding["severities"]:
            counting = [grade for name, grade in finding["severities"].items() if name in self.captures]
            lowest = max("info", severity, key=SEVERITIES.index)
            severity = min(counting, key=SEVERITIES.index, default=lowest)
        return self.grade(finding["code"], severity)

    def grade(self, code: str, severity: str) -> str:
        matches = [key for key in self.severity if code.startswith(key)]
        return self.severity[max(matches, key=len)] if matches else severity


def apply(findings: Iterable[Finding], selection: Selection, text: str, path: str) -> list[Finding]:
    """The findings to show, with their final severity."""
    comments = targets.ignored(text)
    shown = []
    for finding in findings:
        severity = selection.of(finding)
        if severity == "off" or not selection.shows(finding["code"]) or _silenced(finding, comments, path):
            continue
        shown.append(finding if severity == finding["severity"] else {**finding, "severity": cast(Severity, severity)})
    return shown


def _silenced(finding: Finding, comments: Mapping[int, frozenset[str]], path: str) -> bool:
    span = finding["span"]
    if not comments or span is None or span["file"] != path:
        return False
    return silenced(finding["code"], span["line"], span["end_line"], comments)


def silenced(code: str, line: int, end_line: int, comments: Mapping[int, frozenset[str]]) -> bool:
    """Whether a comment on the first or the last line of a finding ignores it."""
    codes = comments.get(line, comments.get(end_line))
    return codes is not None and (not codes or code.startswith(tuple(codes)))


def _longest(code: str, prefixes: Iterable[str]) -> int | None:
    """Length of the longest prefix of the code; None if there is none."""
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=None)
