"""The findings of a record, and what later jobs lay over it: a new record each time that shares what stays the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from .record import NO_GRAPH, Finding, Fix, Record, Target

Numbered = tuple[int, Finding]
"""A finding, and its number in its record."""


def findings(record: Record) -> list[Finding]:
    """All findings of a record, the file's first; one that several targets share is there once."""
    return [group[0][1] for group in groups(record)]


def groups(record: Record) -> list[list[Numbered]]:
    """The findings of a record.  The first of a group is shown, the others are the same met by way of another model."""
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


def with_lowering(record: Record, found: Mapping[str, Sequence[Finding]]) -> Record:
    """The record with findings on lowering for its targets, by their names."""
    targets: list[Target] = [{**each, "lowering": found.get(each["name"], ())} for each in record["targets"]]
    return {**record, "targets": targets}


def with_note(record: Record, note: str | None) -> Record:
    """The record with another sentence for the user, where there is one."""
    return {**record, "notes": [*record["notes"], note]} if note else record


def without_graphs(record: Record) -> Record:
    """The record without graphs, which are most of it."""
    targets: list[Target] = [{**each, **NO_GRAPH} for each in record["targets"]]
    return {**record, "targets": targets}
