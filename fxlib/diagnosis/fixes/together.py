"""Verifies fixes of several findings in one text: if it passes, one trace and one comparison with eager have proven
them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fxlib.diagnosis.fixes import apply_fix
from fxlib.diagnosis.fixes.edits import mapped
from fxlib.diagnosis.fixes.fix import REGISTERING, Fix
from fxlib.diagnosis.fixes.verdict import Verdict
from fxlib.diagnosis.fixes.verify import MOVING, Checker, mark

__all__ = ["prove_together"]

_MOST = 4
"""If this many texts fail, verifying each fix alone is faster."""
_LEAST = 2  # even if they take long: verifying one by one takes longer with a slow model


class _Member(NamedTuple):
    finding: Any
    fix: Fix


def prove_together(checker: Checker, findings: Iterable[tuple[Any, Any]], begin: Callable[[], None]) -> None:
    """Verify the first fix of each of these findings, given with the recipes to try, in one text with those of the
    others; fixes that fail there are left to be verified alone. ``begin`` is called before each text."""
    members: list[_Member] = []
    for finding, recipes in findings:
        fix = next(iter(checker.fixes_of(finding, recipes)), None)
        if fix is not None and _may_join(fix) and _go_together([*members, _Member(finding, fix)], checker):
            members.append(_Member(finding, fix))
    if len(members) > 1:
        begin()
        members = [each for each in members if checker.may_hold(each.fix, each.finding)]
    if len(members) > 1:
        _prove(checker, members, begin)


def _may_join(fix: Fix) -> bool:
    """Whether a fix can be verified together with others: not if its proof needs more than equal results."""
    return not (fix.settings or fix.hazard or fix.id in REGISTERING)


def _go_together(members: Sequence[_Member], checker: Checker) -> bool:
    try:
        apply_fix(_joined(members), checker.read)
    except ValueError:  # overlapping edits
        return False
    return True


def _prove(checker: Checker, members: list[_Member], begin: Callable[[], None]) -> None:
    waiting = [members]
    for number in range(_MOST):
        if not waiting or (number >= _LEAST and checker.left < 0):
            break
        members = waiting.pop(0)
        begin()
        start, whole = time.thread_time(), _joined(members)
        verdict = checker.verify(whole, *(each.finding for each in members))
        proven = _is_proven(whole, verdict)
        for each in members if proven else ():
            own = checker.on_all_branches(verdict, each.fix)
            if _is_proven(each.fix, own):
                checker.proven[mark(each.fix, each.finding)] = own
        checker.left -= time.thread_time() - start
        if not proven:
            waiting += (part for part in _parts(members, whole, checker) if len(part) > 1)


def _parts(members: list[_Member], whole: Fix, checker: Checker) -> list[list[_Member]]:
    """The subsets to try if fixes fail together: those without a finding at their place in the text with all of them,
    or each half."""
    found = {(each.span.file, each.span.line) for each in checker.found_with(whole) if each.span is not None}
    clean = [each for each in members if not found & {*_lines(each, whole)}]
    half = len(members) // 2
    return [clean] if 0 < len(clean) < len(members) else [members[:half], members[half:]]


def _is_proven(fix: Fix, verdict: Verdict) -> bool:
    settled = fix.settled(verdict)
    return settled is not None and settled.preferred


def _joined(members: Sequence[_Member]) -> Fix:
    edits = tuple(dict.fromkeys(edit for each in members for edit in each.fix.edits))
    kind = next((each.fix.kind for each in members if each.fix.kind in MOVING), "rewrite")
    return Fix("+".join(dict.fromkeys(each.fix.id for each in members)), "", kind, edits)


def _lines(member: _Member, whole: Fix) -> Iterator[tuple[str, int]]:
    """The lines of the finding and of what its fix wrote, in the text with all fixes."""
    yield mapped(whole.edits, member.finding.span)
    for edit in member.fix.edits:
        file, line = mapped(whole.edits, edit)
        if edit.column or edit.start != edit.end:
            yield from ((file, line + further) for further in range(edit.text.count("\n") + 1))
