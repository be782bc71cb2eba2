"""The findings of a record, and what is laid over it once it is made: a new record each time that shares what stays the
same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from .record import NO_GRAPH, Finding, Fix, Record, Role, Severity, Target


class Part(Protocol):
    """What ``sources.roles`` says of a class."""

    @property
    def role(self) -> Role: ...
    @property
    def why(self) -> str: ...
    @property
    def limit(self) -> Severity: ...


Numbered = tuple[int, Finding]
"""A finding, and its number in its record."""


_NOT_RUN = ("FX301", "FX304", "FX305", "FX306", "FX307", "FX310")
_GRADES: tuple[Severity, ...] = ("error", "warning", "info", "hint")


def findings(record: Record) -> list[Finding]:
    """All findings of a record, the file's first; one that several targets share is there once, as severe as the target
    that matters most allows."""
    limits = {target["name"]: target["limit"] for target in record["targets"]}
    limits[""] = record["limit"]
    found = []
    for group in groups(record):
        loudest = min((limited(each, limits) for _, each in group), key=lambda each: _GRADES.index(each["severity"]))
        first = limited(group[0][1], limits)
        louder = loudest["severity"] != first["severity"]
        found.append({**first, "severity": loudest["severity"], "target": loudest["target"]} if louder else first)
    return found


def limited(finding: Finding, limits: Mapping[str, Severity]) -> Finding:
    """The finding as severe as its target allows; ``limits`` by the names of targets, and the file's under an empty
    name."""
    of_target = finding["target"] is not None or finding["code"] in _NOT_RUN
    limit = limits.get(finding["target"] or "", "error") if of_target else "error"
    if _GRADES.index(finding["severity"]) >= _GRADES.index(limit):
        return finding
    return {**finding, "severity": limit}


def folded(record: Record, found: Sequence[Finding]) -> list[Finding]:
    """The findings without those of classes beside the models: these are only counted."""
    aside = {target["name"] for target in record["targets"] if target["role"] == "aside" and target["limit"] == "hint"}
    return [each for each in found if each["target"] not in aside]


def groups(record: Record) -> list[list[Numbered]]:
    """The findings of a record.  The first of a group is shown, the others are the same problem, found through
    another model."""
    found: dict[object, list[Numbered]] = {}
    for number, each in enumerate(_all(record)):
        span = each["span"]
        mark = (each["code"], each["message"] if span is None else None, tuple(span.values()) if span else None)
        found.setdefault(mark, []).append((number, each))
    return list(found.values())


def _all(record: Record) -> Iterator[Finding]:
    yield from record["findings"]
    for target in record["targets"]:
        yield from target["findings"]
        yield from target["lowering"]


def with_fixes(record: Record, fixes: Mapping[int, Sequence[Fix]]) -> Record:
    """The record with other fixes of some findings, by their numbers."""
    numbers = itertools.count()

    def settled(found: Sequence[Finding]) -> list[Finding]:
        return [
            {**each, "fixes": fixes[number]} if number in fixes else each
            for number, each in zip(itertools.islice(numbers, len(found)), found, strict=True)
        ]

    own = settled(record["findings"])
    targets: list[Target] = [
        {**each, "findings": settled(each["findings"]), "lowering": settled(each["lowering"])}
        for each in record["targets"]
    ]
    return {**record, "findings": own, "targets": targets}


def with_read(record: Record, names: Iterable[str], found: Iterable[Finding]) -> Record:
    """The record with what reading alone found in these targets, which no trace has judged."""
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


def with_parts(record: Record, parts: Mapping[str, Part]) -> Record:
    """The record with the part that each class of the file plays, by their names."""
    targets: list[Target] = []
    for each in record["targets"]:
        part = parts.get(each["name"])
        targets.append({**each, "role": part.role, "why": part.why, "limit": part.limit} if part else each)
    loudest = min((each.limit for each in parts.values()), key=_GRADES.index, default="error")
    return {**record, "targets": targets, "limit": "error" if loudest == "error" else "warning"}


def same_trace(one: Record | None, other: Record | None) -> bool:
    """Whether both come from one trace, with different things laid over it."""
    return one is not None and other is not None and one["timings"] is other["timings"]


def with_note(record: Record, note: str | None) -> Record:
    """The record with another sentence for the user, where there is one."""
    return {**record, "notes": [*record["notes"], note]} if note else record


def without_graphs(record: Record) -> Record:
    """The record without graphs, which are most of it."""
    targets: list[Target] = [{**each, **NO_GRAPH} for each in record["targets"]]
    return {**record, "targets": targets}
