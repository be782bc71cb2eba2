"""One finding for one expression, for all captures that it affects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fxlib.captures.verdict import Verdict
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules.rule import SEVERITIES
from fxlib.ir.span import Span

__all__ = ["merged"]

_ORDER = ("fx", "export", "compile", "onnx")
_NAMES = {"export": "torch.export", "compile": "torch.compile"}


def merged(verdicts: dict[str, Verdict], findings: Iterable[Finding], of_fx: Iterable[Finding] = ()) -> list[Finding]:
    """The findings of all captures, merged by expression.

    That of torch.fx is kept, otherwise the most severe one. ``data["captures"]`` has the code for each affected
    capture, ``data["severities"]`` its severity there, and a note says what the others do. A loud finding for torch.fx
    alone says that the others accept the expression, if they were run.

    Args:
        verdicts: by the name of the capture.
        findings: those of torch.export and torch.compile.
        of_fx: those of `fxlib.diagnose` on the same model.
    """
    groups: dict[object, list[Finding]] = {}
    for finding in of_fx:
        own = replace(finding, data={**finding.data, "captures": {"fx": finding.code}})
        groups.setdefault(own.span or id(own), []).append(own)
    for finding in findings:
        groups.setdefault(finding.span or id(finding), []).append(finding)
    found = []
    for group in groups.values():
        # Several findings of one capture at one expression are several problems.
        first, *others = sorted(group, key=_rank)
        joined = [each for each in others if not set(each.data["captures"]) & set(first.data["captures"])]
        found += [_joined(each, [], verdicts) for each in others if each not in joined]
        found.append(_joined(first, joined, verdicts))
    return sorted(found, key=lambda finding: (finding.span is None, *(finding.span or ()), finding.code))


def _rank(finding: Finding) -> tuple[bool, int, int]:
    captures = finding.data["captures"]
    first = min(_ORDER.index(name) for name in captures)
    return "fx" not in captures, SEVERITIES.index(finding.severity), first


def _joined(first: Finding, others: list[Finding], verdicts: dict[str, Verdict]) -> Finding:
    captures = dict(first.data["captures"])
    data = dict(first.data)
    severities = dict.fromkeys(captures, first.severity)
    notes: list[Related] = []
    for other in others:
        severities.update({name: other.severity for name in other.data["captures"] if name not in captures})
        captures.update({name: code for name, code in other.data["captures"].items() if name not in captures})
        notes.append(Related(_also(other)))
        notes += other.related
        data.update({key: value for key, value in other.data.items() if key not in data})
    if set(captures) == {"fx"} and first.loud:
        taken = [_NAMES[name] for name in _NAMES if name in verdicts and _accepts(verdicts[name], first.span)]
        if taken:
            notes.append(Related(f"{' and '.join(taken)} {'accepts' if len(taken) == 1 else 'accept'} this."))
    data["captures"] = {name: captures[name] for name in _ORDER if name in captures}
    data["severities"] = {name: severities[name] for name in data["captures"]}
    return replace(first, related=tuple(dict.fromkeys([*first.related, *notes])), data=data)


def _also(finding: Finding) -> str:
    """One line about another capture at the same expression."""
    captures = finding.data["captures"]
    if finding.data.get("dynamo"):
        return f"also: torch.compile breaks the graph here, {', '.join(finding.data['dynamo'])}"
    if finding.data.get("error"):
        return f"also: torch.export fails here, {finding.data['error']}"
    name = next((_NAMES[name] for name in captures if name in _NAMES), "torch.fx")
    return f"also, with {name}: {finding.message}"


def _accepts(verdict: Verdict, span: Span | None) -> bool:
    """Whether a capture analysed all of forward and reported nothing at an expression or a part of it."""
    if not verdict.complete or span is None:
        return False
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    for finding in verdict.findings:
        other = finding.span
        if other is None or other.file != span.file or finding.severity in ("info", "hint"):
            continue
        if start < (other.end_line, other.end_column) and (other.line, other.column) < end:
            return False
    return True
