"""The findings of a record, and overlays of later results: each gives a new record that shares unchanged parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypedDict

from .not_judged import NOT_RUN
from .record import NO_GRAPH, Finding, Fix, Record, Related, Role, Severity, Target, Verdict


class Part(Protocol):
    """The part of a class by ``sources.roles``."""

    @property
    def role(self) -> Role: ...
    @property
    def why(self) -> str: ...
    @property
    def limit(self) -> Severity: ...


Numbered = tuple[int, Finding]
"""A finding, and its number in its record."""


_GRADES: tuple[Severity, ...] = ("error", "warning", "info", "hint")


class Also(TypedDict):
    """The results of other captures at the expression of a torch.fx finding; ``number`` counts the findings of its
    target."""

    number: int
    captures: Mapping[str, str]
    severities: Mapping[str, Severity]
    related: Sequence[Related]
    fixes: Sequence[Fix]


class Compared(TypedDict):
    """The result of running a model and its graph side by side: a new finding, or notes on findings of its target, by
    their numbers."""

    findings: Sequence[Finding]
    notes: Mapping[int, Sequence[Related]]


class Captured(TypedDict):
    """The results of captures other than torch.fx for a model: verdicts, their own findings, and additions to findings
    of torch.fx."""

    verdicts: Sequence[Verdict]
    findings: Sequence[Finding]
    also: Sequence[Also]


def findings(record: Record) -> list[Finding]:
    """All findings of a record, the file's first; one shared by several targets occurs once, with the highest severity
    that these allow."""
    limits = {target["name"]: target["limit"] for target in record["targets"]}
    limits[""] = record["limit"]
    found = []
    for group in groups(record):
        loudest = min((limited(each, limits) for _, each in group), key=lambda each: _GRADES.index(each["severity"]))
        first = limited(group[0][1], limits)
        if loudest["severity"] != first["severity"]:
            grade, grades = loudest["severity"], loudest["severities"]
            first = {**first, "severity": grade, "severities": grades, "target": loudest["target"]}
        found.append(first)
    return found


def limited(finding: Finding, limits: Mapping[str, Severity]) -> Finding:
    """The finding with the severity limited by its target, for every capture; ``limits`` by target name, the file's
    under an empty name."""
    of_target = finding["target"] is not None or finding["code"] in NOT_RUN
    limit = limits.get(finding["target"] or "", "error") if of_target else "error"
    if limit == "error":
        return finding

    def lowered(severity: Severity) -> Severity:
        return max(severity, limit, key=_GRADES.index)

    grades = {name: lowered(each) for name, each in finding["severities"].items()}
    return {**finding, "severity": lowered(finding["severity"]), "severities": grades}


def folded(record: Record, found: Sequence[Finding]) -> list[Finding]:
    """The findings without those of classes that are not models, which are only counted."""
    aside = {target["name"] for target in record["targets"] if target["role"] == "aside" and target["limit"] == "hint"}
    return [each for each in found if each["target"] not in aside]


def groups(record: Record) -> list[list[Numbered]]:
    """The findings of a record in groups. The first of a group is shown; the others are the same problem found through
    another model: at the same place, or in the same model if the place is unknown."""
    found: dict[object, list[Numbered]] = {}
    for number, each in enumerate(_all(record)):
        span = each["span"]
        mark = (each["code"], *((each["message"], each["target"]) if span is None else span.values()))
        found.setdefault(mark, []).append((number, each))
    return list(found.values())


def _all(record: Record) -> Iterator[Finding]:
    yield from record["findings"]
    for target in record["targets"]:
        yield from of_trace(target)
        yield from target["lowering"]
    # At the end, so that existing findings keep their numbers.
    for target in record["targets"]:
        yield from target["captured"]
    for target in record["targets"]:
        yield from _of_comparison(target)


def of_trace(target: Target) -> list[Finding]:
    """Without those of the comparison."""
    return [each for each in target["findings"] if each["source"] != "compare"]


def _of_comparison(target: Target) -> list[Finding]:
    """They come last, and have no fixes."""
    return [each for each in target["findings"] if each["source"] == "compare"]


def with_fixes(record: Record, fixes: Mapping[int, Sequence[Fix]], captures: bool = False) -> Record:
    """The record with other fixes of some findings, by their numbers: those for torch.fx, or for the other
    ``captures``."""
    numbers = itertools.count()

    def settled(found: Sequence[Finding]) -> list[Finding]:
        return [
            {**each, "fixes": _exchanged(each["fixes"], fixes[number], captures)} if number in fixes else each
            for number, each in zip(itertools.islice(numbers, len(found)), found, strict=True)
        ]

    own = settled(record["findings"])
    targets: list[Target] = [
        {
            **each,
            "findings": [*settled(of_trace(each)), *_of_comparison(each)],
            "lowering": settled(each["lowering"]),
        }
        for each in record["targets"]
    ]
    targets = [{**each, "captured": settled(each["captured"])} for each in targets]
    return {**record, "findings": own, "targets": targets}


def _exchanged(old: Sequence[Fix], new: Sequence[Fix], captures: bool) -> list[Fix]:
    kept = [each for each in old if (each["capture"] == "fx") == captures]
    return [*kept, *new] if captures else [*new, *kept]


def with_read(record: Record, names: Iterable[str], found: Iterable[Finding]) -> Record:
    """The record with findings from the text alone for targets that were not traced."""
    wanted = set(names)
    read = [each for each in found if each["target"] in wanted]
    targets: list[Target] = [
        {**target, "findings": [*target["findings"], *(each for each in read if each["target"] == target["name"])]}
        for target in record["targets"]
    ]
    return {**record, "targets": targets} if read else record


def with_lowering(record: Record, found: Mapping[str, Sequence[Finding]]) -> Record:
    """The record with findings on lowering for its targets, by their names."""
    targets: list[Target] = [{**each, "lowering": found.get(each["name"], ())} for each in record["targets"]]
    return {**record, "targets": targets}


def with_compared(record: Record, found: Mapping[str, Compared]) -> Record:
    """The record with the results of comparing its targets with their graphs, by name."""
    return {**record, "targets": [_compared(each, found.get(each["name"])) for each in record["targets"]]}


def _compared(target: Target, found: Compared | None) -> Target:
    if found is None:
        return target
    own: list[Finding] = [
        {**each, "related": [*each["related"], *found["notes"].get(number, ())]}
        for number, each in enumerate(of_trace(target))
    ]
    return {**target, "findings": [*own, *found["findings"]]}


def with_parts(record: Record, parts: Mapping[str, Part]) -> Record:
    """The record with the part that each class of the file plays, by their names."""
    targets: list[Target] = []
    for each in record["targets"]:
        part = parts.get(each["name"])
        targets.append({**each, "role": part.role, "why": part.why, "limit": part.limit} if part else each)
    loudest = min((each.limit for each in parts.values()), key=_GRADES.index, default="error")
    return {**record, "targets": targets, "limit": "error" if loudest == "error" else "warning"}


def with_captures(record: Record, found: Mapping[str, Captured]) -> Record:
    """The record with the results of other captures for its targets, by name."""
    return {**record, "targets": [_captured(each, found.get(each["name"])) for each in record["targets"]]}


def _captured(target: Target, found: Captured | None) -> Target:
    if found is None:
        return target
    also = {each["number"]: each for each in found["also"]}
    own: list[Finding] = []
    for number, each in enumerate(target["findings"]):
        more = also.get(number)
        if more is not None:
            known = [*each["related"], *(note for note in more["related"] if note not in each["related"])]
            each = {
                **each, "captures": more["captures"], "severities": more["severities"], "related": known,
                "fixes": _exchanged(each["fixes"], more["fixes"], captures=True),
            }  # fmt: skip
        own.append(each)
    return {**target, "findings": own, "captures": found["verdicts"], "captured": found["findings"]}


def with_note(record: Record, note: str | None) -> Record:
    """The record with a further sentence for the user, if there is one."""
    return {**record, "notes": [*record["notes"], note]} if note else record


def without_graphs(record: Record) -> Record:
    """The record without graphs, which are most of it."""
    targets: list[Target] = [
        {**each, **NO_GRAPH, "captures": [{**verdict, "graph": None} for verdict in each["captures"]]}
        for each in record["targets"]
    ]
    return {**record, "targets": targets}
