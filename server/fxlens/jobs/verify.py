"""Checks fixes: each is applied to a copy of the text, traced again and compared with eager.

Fixes for which one job has no time are left to the next.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.host.outcome import Unfinished, WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.overlays import groups, with_fixes
from fxlens.record import Finding, Fix, Record, Target, assumed

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job
    from fxlib.diagnosis.fixes.verify import Checker

log = logging.getLogger(__name__)


_DIED = "the process ended"
_PLAIN = ("data", "captures", "severities")


class Check(TypedDict):
    """A finding whose fixes for a capture are to be checked; only those in ``recipes``, if given."""

    number: int
    finding: Finding
    capture: str
    recipes: list[str] | None


class Model(TypedDict):
    """A model of the file and what is to be checked of it."""

    name: str
    line: int
    construct: str
    inputs: str | None
    assumed: bool
    alone: bool
    size: int
    checks: list[Check]


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``checking`` with a number, then ``fixes`` with that number, its fixes, and the positions of those that
    were left for lack of time; or ``unchecked`` with the remaining numbers of a model that cannot be checked, and why.
    Unreached findings have no event."""
    from fxlens.worker import alone, user_file
    from fxlens.worker.keeping import keeping_files
    from fxlib.diagnosis.engine.search import unhindered
    from fxlib.diagnosis.fixes.verdict import Target as Made

    # Not clock time: the next job constructs each model again, and on a busy machine would get no further.
    until = unhindered() + 2 * job.deadline
    models: list[Model] = job.message["models"]
    others = [Made(**each) for each in job.message["others"]]
    load = user_file.loader(job)
    # Small models first: a large one may use up the time.
    for model in sorted(models, key=lambda model: model["size"]):
        with alone.where(model["alone"]), keeping_files():
            _check(job, model, others, load, until)


def _check(job: Job, model: Model, others: list[Any], load: Callable[..., Any], until: float) -> None:
    """Settles the findings of one model until that time."""
    from fxlens.worker import render, scope
    from fxlens.worker.errors import brief
    from fxlib.diagnosis.engine.search import unhindered
    from fxlib.diagnosis.fixes.together import prove_together

    checkers: dict[str, Checker] = {}
    begin = functools.partial(job.announce, "verify", model["name"], model["line"])
    for at, check in enumerate(model["checks"]):
        capture = check["capture"]
        if unhindered() > until:
            break
        try:
            if capture not in checkers:
                kind = checker_of(capture)
                checkers[capture] = kind(
                    job.path,
                    model["construct"],
                    model["inputs"],
                    read=job.read,
                    load=load,
                    assumed=model["assumed"],
                    leaf_modules=job.leaf_modules,
                    tracer=job.tracer,
                    names=scope.names(),
                    others=others,
                )
                if capture == "fx" and job.message["together"]:
                    same = [each for each in model["checks"][at:] if each["capture"] == capture]
                    findings = [(as_object(each["finding"]), each["recipes"]) for each in same]
                    prove_together(checkers[capture], findings, begin)
            checker = checkers[capture]
            if checker.left < 0 and not checker.proven:
                break
            begin()
            job.send("checking", number=check["number"])
            settled = checker.settle(as_object(check["finding"]), check["recipes"], job.message["every"])
        except Exception as error:
            # Such as a constructor that needs a file, which the trace did without.
            numbers = [each["number"] for each in model["checks"][at:]]
            job.send("unchecked", numbers=numbers, why=f"checking {model['name']} raises {brief(error)}")
            break
        late = [position for position, fix in enumerate(settled) if fix.late]
        job.send("fixes", number=check["number"], fixes=[render.fix(each, capture) for each in settled], late=late)


def checker_of(capture: str) -> Callable[..., Checker]:
    """Makes checkers of fixes for a capture. They construct a model as the trace does, with placeholders for what this
    machine lacks."""
    from fxlens.worker.construct import without_what_it_lacks

    if capture == "fx":
        from fxlib.diagnosis.fixes.verify import Checker

        return functools.partial(Checker, lacking=without_what_it_lacks)
    from fxlib.captures.proof import CaptureChecker

    return functools.partial(CaptureChecker, capture, lacking=without_what_it_lacks)


def as_object(value: Any) -> Any:
    """An entry of the record with the attributes of fxlib's own, whose sequences are tuples."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: each if name in _PLAIN else as_object(each) for name, each in value.items()})
    return tuple(map(as_object, value)) if isinstance(value, list) else value


# On the server


async def run(
    pool: Pool,
    request: Request,
    record: Record,
    rounds: int = 3,
    on_change: Callable[[int, Sequence[Fix]], None] | None = None,
    captures: bool = False,
    without: Collection[str] = (),
    every: bool = True,
) -> tuple[Record, str | None]:
    """The record with checked fixes and their final titles instead of the proposed ones; and a sentence for the user if
    some were not checked.

    There are ``rounds`` jobs at most.  A fix whose check hung or crashed stays as proposed: not checked, never
    preferred.  ``on_change`` gets the number of a finding and its fixes when all of these are settled.  With
    ``captures``, fixes of torch.export and torch.compile are checked, otherwise those of the trace; findings of the
    targets ``without`` alone are skipped.  Without ``every``, checking a finding ends with its first proven fix.
    """
    checks = _Checks(record, on_change or (lambda number, fixes: None), captures, without)
    others = [*models_of(record).values()]
    why = ""
    together = not every
    for _ in range(rounds + together):
        models = checks.models()
        if not models:
            break
        left = checks.amount()
        try:
            outcome = await pool.run(
                request.message("verify", models=models, every=every, others=others, together=together),
                request.limits,
                checks.take,
                background=True,
                captures=captures,
            )
        except WorkerUnavailable as error:
            return checks.record, Unfinished(f"{request.path}: not all fixes were checked: {error}")
        if outcome.end == "done":
            why = why or ("checking failed" if checks.failed else "it took too long")
        else:
            late = f"one took more than {request.limits.deadline:g} s"
            why = late if outcome.end == "timeout" else _DIED
            checks.give_up(why)
        ended, stuck = outcome.end != "done", checks.amount() == left
        if stuck and not together:
            break
        together = together and not ended and not stuck  # the failing fix is unknown
    if checks.failed:
        log.warning("checking the fixes of %s failed: %s", request.path, checks.failed)
    checks.explain(why)
    reasons = list(dict.fromkeys([*checks.lost.values(), *([why] if checks.left else [])]))
    if not reasons:
        return checks.record, None
    note = f"{request.path}: not all fixes were checked: {'; '.join(reasons)}"
    return checks.record, Unfinished(note) if _DIED in reasons else note


def models_of(record: Record) -> dict[str, dict[str, Any]]:
    """How each model of a file is constructed and called, by name."""
    return {
        target["name"]: {
            "construct": target["construct"]["text"],
            "inputs": target["inputs"]["text"] if target["inputs"] else None,
            "assumed": assumed(target),
        }
        for target in record["targets"]
        if target["construct"]
    }


def left(record: Record, captures: bool = False) -> bool:
    """Whether there are fixes to check."""
    return bool(_Checks(record, lambda number, fixes: None, captures).left)


@dataclass
class _Check:
    """``shown`` is the finding that offers these fixes: this one, or the same problem, found through another model."""

    shown: int
    finding: Finding
    capture: str
    recipes: list[str] | None
    fixes: list[Fix]
    target: Target
    known: int = 0
    """How many of the fixes are settled; the others come first in the next job."""


class _Checks:
    """The findings of a record whose fixes are to be checked, and their state."""

    def __init__(
        self,
        record: Record,
        on_change: Callable[[int, Sequence[Fix]], None],
        captures: bool,
        without: Collection[str] = (),
    ) -> None:
        self.record = record
        self._on_change = on_change
        self._captures = captures
        self._checks: list[_Check] = []
        targets = {each["name"]: each for each in record["targets"] if each["construct"]}
        others: list[_Check] = []
        for group in groups(record):
            (shown, first), *same = group
            if all(each["target"] in without for _, each in group):
                continue
            for capture in dict.fromkeys(fix["capture"] for fix in first["fixes"]):
                fixes = [fix for fix in first["fixes"] if fix["capture"] == capture]
                if first["target"] in targets and captures == (capture != "fx") and not _all_checked(fixes, captures):
                    self._checks.append(_Check(shown, first, capture, None, fixes, targets[first["target"]]))
            for _, other in same:
                more = _more_recipes(first, other)
                if more and other["target"] in targets and not captures:
                    # For that model the problem may have other fixes, such as a leaf module.
                    others.append(_Check(shown, other, "fx", more, [], targets[other["target"]]))
        self._checks += others
        self.left = set(range(len(self._checks)))
        self.lost: dict[int, str] = {}
        self.failed = ""
        self._at: int | None = None

    def models(self) -> list[Model]:
        """The remaining checks by model, for the job."""
        made: dict[str, Model] = {}
        for number in sorted(self.left):
            check = self._checks[number]
            target, inputs, construct = check.target, check.target["inputs"], check.target["construct"]
            model: Model = {
                "name": target["name"], "line": target["line"], "construct": construct["text"] if construct else "",
                "inputs": inputs["text"] if inputs else None, "assumed": assumed(target),
                "alone": target["alone"], "size": len(target["nodes"]), "checks": [],
            }  # fmt: skip
            recipes = check.recipes if check.recipes is not None else [*dict.fromkeys(fix["id"] for fix in check.fixes)]
            entry: Check = {
                "number": number, "finding": check.finding, "capture": check.capture,
                "recipes": check.recipes if check.capture == "fx" else recipes,
            }  # fmt: skip
            made.setdefault(target["name"], model)["checks"].append(entry)
        return list(made.values())

    def amount(self) -> tuple[int, int]:
        """The number of remaining checks, to see whether a job made progress."""
        return len(self.left), sum(check.known for check in self._checks)

    def take(self, event: Json) -> None:
        kind = event.get("event")
        if kind == "checking":
            self._at = event["number"]
        elif kind == "fixes":
            self._settle(event["number"], event["fixes"], set(event["late"]))
            self._at = None
        elif kind == "unchecked":
            for number in event["numbers"]:
                self._lose(number, event["why"])
            self._at = None
        elif kind == "failed":
            self.failed = event["detail"]

    def give_up(self, why: str) -> None:
        """Give up the current fix, since it ended the process and would do so again."""
        if self._at is not None:
            self._lose(self._at, why)

    def _lose(self, number: int, why: str) -> None:
        if number in self.left:
            self.left.discard(number)
            self.lost[number] = why

    def explain(self, why: str) -> None:
        """Notes why fixes were not checked."""
        for number in sorted({*self.left, *self.lost}):
            check = self._checks[number]
            reason = f"not checked: {self.lost.get(number, why)}"
            check.fixes = [fix if fix["checked"] or fix["note"] else {**fix, "note": reason} for fix in check.fixes]
            self._show(check)

    def _settle(self, number: int, fixes: list[Fix], late: set[int]) -> None:
        """Fixes for which there was no time come first in the next job."""
        check = self._checks[number]
        settled = check.fixes[: check.known] + [fix for at, fix in enumerate(fixes) if at not in late]
        waiting = [fix for at, fix in enumerate(fixes) if at in late]
        check.fixes = settled + waiting
        check.known = len(settled) if waiting else 0
        if waiting:
            check.recipes = list(dict.fromkeys(fix["id"] for fix in waiting))
        else:
            self.left.discard(number)
        self._show(check)

    def _show(self, check: _Check) -> None:
        together = [each for each in self._checks if each.shown == check.shown]
        fixes = [fix for each in together for fix in each.fixes]
        ranked = _ranked(fixes)
        self.record = with_fixes(self.record, {check.shown: ranked}, self._captures)
        self._on_change(check.shown, ranked)


def _all_checked(fixes: Sequence[Fix], captures: bool) -> bool:
    """Whether all fixes are checked, from an earlier round; if one is proven, the others may stay unchecked."""
    return captures and (all(fix["checked"] for fix in fixes) or any(fix["preferred"] for fix in fixes))


def _ranked(fixes: Iterable[Fix]) -> list[Fix]:
    """Proven ones first, and at most one preferred."""
    found = False
    ranked: list[Fix] = []
    for fix in sorted(fixes, key=lambda fix: (not fix["preferred"], not fix["checked"])):
        ranked.append({**fix, "preferred": fix["preferred"] and not found})
        found = found or fix["preferred"]
    return ranked


def _more_recipes(first: Finding, other: Finding) -> list[str]:
    """The recipes of one finding that the other lacks."""
    known = {fix["id"] for fix in first["fixes"]}
    mine = [fix["id"] for fix in other["fixes"] if fix["capture"] == "fx"]
    return list(dict.fromkeys(each for each in mine if each not in known))
