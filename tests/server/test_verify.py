"""Checking fixes goes on over several jobs: late ones next, what ends a process given up, findings met twice merged."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from fxlens import overlays
from fxlens import record as records
from fxlens.config.selection import Selection
from fxlens.ipc.request import Request
from fxlens.jobs import fix_all
from fxlens.jobs import verify as verifying
from fxlens.overlays import findings
from fxlens.record import Finding, Fix, Record
from fxlens.views.verdicts import unchecked

from fxlib.diagnosis.engine import search

PATH = "/models/net.py"


def fix(name: str, **more: Any) -> Fix:
    return {
        "id": name,
        "title": name,
        "capture": "fx",
        "preferred": False,
        "checked": False,
        "assumes": None,
        "note": None,
        "edits": [],
        **more,
    }


def finding(line: int, *fixes: str, target: str = "Net") -> Finding:
    span = records.span(PATH, line, 0, line, 4)
    return records.finding("FX101", "error", "m", span, target=target, fixes=[fix(name) for name in fixes])


def record(**targets: list[Finding]) -> Record:
    span, made = records.span(PATH, 1), {"construct": records.origin("Net()", "default")}
    found = [{**records.target(name, span), "findings": found, **made} for name, found in targets.items()]
    return {**records.empty_record(PATH), "targets": found}


@dataclass
class Outcome:
    end: str = "done"
    step: dict[str, Any] = field(default_factory=dict)


class Pool:
    """Answers each job with the next script: a list of events and how the process ended."""

    def __init__(self, *scripts: tuple[list[dict[str, Any]], str]) -> None:
        self.scripts = list(scripts)
        self.asked: list[list[tuple[int, list[str] | None]]] = []
        self.every: set[bool] = set()
        self.together: list[bool] = []

    async def run(
        self, message: dict[str, Any], limits: Any, collect: Any, background: bool = False, captures: bool = False
    ) -> Outcome:
        asked = [(check["number"], check["recipes"]) for model in message["models"] for check in model["checks"]]
        self.asked.append(asked)
        self.every.add(message["every"])
        self.together.append(message["together"])
        events, end = self.scripts.pop(0) if self.scripts else ([], "done")
        for event in events:
            collect(event)
        return Outcome(end)


def settled(number: int, *fixes: Fix, late: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"event": "fixes", "number": number, "fixes": list(fixes), "late": list(late)}


def verify(pool: Pool, made: Record, rounds: int = 5, every: bool = True) -> tuple[Record, str | None]:
    """The checked record and the note; the record that was given, and each on the way, stays as it was."""
    steps = [made]
    before = [copy.deepcopy(made)]

    def changed(number: int, fixes: Sequence[Fix]) -> None:
        steps.append(overlays.with_fixes(steps[-1], {number: fixes}))
        before.append(copy.deepcopy(steps[-1]))

    checked, note = asyncio.run(verifying.run(pool, Request(PATH, ""), made, rounds, changed, every=every))  # type: ignore[arg-type]
    assert steps == before and steps[-1] == checked
    return checked, note


PROVEN = {"preferred": True, "checked": True}


def test_what_there_was_no_time_for_comes_in_the_next_job():
    made = record(Net=[finding(3, "wrap", "lift"), finding(5, "wrap")])
    first = [settled(0, fix("wrap", checked=True), fix("lift"), late=(1,))]
    pool = Pool((first, "done"), ([settled(0, fix("lift", **PROVEN)), settled(1, fix("wrap", **PROVEN))], "done"))
    checked, note = verify(pool, made)
    assert note is None
    assert pool.asked == [[(0, None), (1, None)], [(0, ["lift"]), (1, None)]]
    shown = [[(each["id"], each["preferred"]) for each in found["fixes"]] for found in findings(checked)]
    assert shown == [[("lift", True), ("wrap", False)], [("wrap", True)]]


def test_what_ends_the_process_is_given_up_and_the_rest_goes_on():
    made = record(Net=[finding(3, "wrap"), finding(5, "wrap")])
    pool = Pool(([{"event": "checking", "number": 0}], "crash"), ([settled(1, fix("wrap", **PROVEN))], "done"))
    checked, note = verify(pool, made)
    assert note == f"{PATH}: not all fixes were checked: the process ended"
    assert pool.asked == [[(0, None), (1, None)], [(1, None)]]
    assert [found["fixes"][0]["checked"] for found in findings(checked)] == [False, True]
    assert [unchecked(found["fixes"][0]) for found in findings(checked)] == ["not checked: the process ended", ""]


@pytest.mark.parametrize("end", ["crash", "done"])
def test_where_fixes_in_one_text_end_the_process_or_come_to_nothing_each_is_checked_alone(end: str):
    made = record(Net=[finding(3, "wrap"), finding(5, "wrap")])
    proven = [settled(number, fix("wrap", **PROVEN)) for number in (0, 1)]
    pool = Pool(([], end), (proven, "done"))
    checked, note = verify(pool, made, rounds=1, every=False)
    assert note is None and pool.together == [True, False]
    assert all(found["fixes"][0]["checked"] for found in findings(checked))
    pool = Pool(([], end))
    verify(pool, made)
    assert pool.together == [False]


def test_a_model_that_cannot_be_checked_keeps_no_other_from_it():
    made = record(Net=[finding(3, "wrap"), finding(5, "wrap")], Other=[finding(9, "wrap")])
    events = [
        {"event": "checking", "number": 0},
        {"event": "unchecked", "numbers": [0, 1], "why": "checking Net raises OSError"},
        settled(2, fix("wrap", **PROVEN)),
    ]
    pool = Pool((events, "done"))
    checked, note = verify(pool, made)
    assert note == f"{PATH}: not all fixes were checked: checking Net raises OSError"
    assert len(pool.asked) == 1
    why = "not checked: checking Net raises OSError"
    assert [unchecked(found["fixes"][0]) for found in findings(checked)] == [why, why, ""]


def test_a_job_that_fails_is_not_said_to_take_long():
    pool = Pool(([{"event": "failed", "message": "m", "detail": "d"}], "done"))
    assert (verify(pool, record(Net=[finding(3, "wrap")]))[1] or "").endswith(": checking failed")


def test_what_a_capture_has_proven_is_not_checked_again():
    """Beside it there may be others, which nobody has checked."""
    for proven, left in ((PROVEN, False), ({}, True)):
        made = record(Net=[finding(3)])
        made["targets"][0]["findings"][0]["fixes"] = [
            fix("check-condition", capture="export", **proven),
            fix("torch-math", capture="export", note="not checked: another fix is proven"),
        ]
        assert verifying.left(made, captures=True) == left


def test_a_job_that_does_not_get_on_is_the_last():
    pool = Pool()
    assert "it took too long" in (verify(pool, record(Net=[finding(3, "wrap")]))[1] or "")
    assert len(pool.asked) == 1


def test_ways_out_that_only_another_model_has_are_added():
    """The submodule on its own cannot be a leaf; as part of the other model it can."""
    made = record(Gate=[finding(3, target="Gate")], Net=[finding(3, "leaf-module")])
    pool = Pool(([settled(0, fix("leaf-module", **PROVEN))], "done"))
    checked, note = verify(pool, made)
    assert note is None
    assert pool.asked == [[(0, ["leaf-module"])]]
    (found,) = findings(checked)
    assert found["target"] == "Gate" and [each["id"] for each in found["fixes"]] == ["leaf-module"]


def test_the_job_is_told_whether_one_proven_fix_is_enough():
    for every in (True, False):
        pool = Pool(([settled(0, fix("wrap", **PROVEN))], "done"))
        verify(pool, record(Net=[finding(3, "wrap")]), every=every)
        assert pool.every == {every}


def test_waiting_for_a_processor_takes_none_of_the_time_of_a_job(monkeypatch: pytest.MonkeyPatch):
    class Checker:
        left = 1.0

        def settle(self, finding: Any, recipes: Any, every: bool) -> list[Any]:
            return []

    sent: list[str] = []
    checks = [{"number": number, "finding": {}, "capture": "fx", "recipes": None} for number in range(3)]
    model = {"name": "Net", "line": 1, "construct": "Net()", "inputs": None, "assumed": False, "alone": False}
    job = SimpleNamespace(
        deadline=0.0, path=PATH, read=None, leaf_modules=(), tracer=None, announce=lambda *step: None,
        message={"models": [{**model, "size": 1, "checks": checks}], "others": [], "every": False, "together": False},
        send=lambda event, **fields: sent.append(event),
    )  # fmt: skip
    monkeypatch.setattr(verifying, "checker_of", lambda capture: lambda *arguments, **options: Checker())
    monkeypatch.setattr(search, "unhindered", lambda: 5.0)
    monkeypatch.setattr("fxlens.worker.user_file.loader", lambda job: None)  # it would note what this process reads
    verifying.work(job)  # type: ignore[arg-type]
    assert sent == ["checking", "fixes"] * 3


@pytest.mark.parametrize(
    ("fixes", "known", "models"),
    [
        ({"Net": [[fix("a", **PROVEN)]]}, ["a"], []),
        ({"Net": [[fix("a", checked=True)]]}, [], None),
        ({"Net": [[fix("a")]]}, [], ["Net"]),
        ({"Net": [[fix("a", **PROVEN)], [fix("b", **PROVEN)]]}, ["a", "b"], ["Net"]),
        ({"Net": [[fix("a", **PROVEN)]], "Other": [[], [fix("b", checked=True)]]}, ["a"], ["Other"]),
        ({"Net": [[fix("a", **PROVEN)]], "Other": [[fix("a")]]}, ["a"], []),
        ({"Net": [[fix("a", checked=True)]], "Other": [[fix("a")]]}, [], ["Other"]),
        ({"Net": [[fix("a", **PROVEN, edits=[{"file": "/models/other.py"}])]]}, [], ["Net"]),
    ],
)
def test_all_fixes_are_proven_only_as_far_as_the_record_does_not_know(fixes, known, models):
    targets = {
        name: [{**finding(line, target=name), "fixes": each} for line, each in enumerate(found)]
        for name, found in fixes.items()
    }
    asked = []

    class Jobs:
        async def run(self, message, limits, collect, captures):
            known = [each["fix"]["id"] for each in message["known"]]
            asked.append((known, [name for each in message["targets"] for name in fixes if each == others[name]]))
            return Outcome()

    # Models are told apart by how they are made.
    made = record(**targets)
    for each in made["targets"]:
        each["construct"] = records.origin(f"{each['name']}()", "default")
    others = verifying.models_of(made)
    asyncio.run(fix_all.run(Jobs(), Request(PATH, ""), made, Selection()))
    assert asked == ([] if models is None else [(known, models)])
