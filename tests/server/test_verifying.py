"""Checking fixes goes on over several jobs: late ones next, what ends a process given up, findings met twice merged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from fxlens.host import verifying
from fxlens.host.tracing import Request, findings

PATH = "/models/net.py"


def fix(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": name, "preferred": False, "checked": False, "note": None, "edits": [], **more}


def finding(line: int, *fixes: str, target: str = "Net") -> dict[str, Any]:
    span = {"file": PATH, "line": line, "column": 0, "end_line": line, "end_column": 4}
    return {"code": "FX101", "message": "m", "span": span, "target": target, "fixes": [fix(name) for name in fixes]}


def record(**targets: list[dict[str, Any]]) -> dict[str, Any]:
    made = {"construct": {"text": "Net()"}, "inputs": None, "line": 1, "nodes": []}
    return {"findings": [], "targets": [{"name": n, "findings": found, **made} for n, found in targets.items()]}


@dataclass
class Outcome:
    end: str = "done"
    step: dict[str, Any] = field(default_factory=dict)


class Pool:
    """Answers each job with the next script: a list of events and how the process ended."""

    def __init__(self, *scripts: tuple[list[dict[str, Any]], str]) -> None:
        self.scripts = list(scripts)
        self.asked: list[list[tuple[int, list[str] | None]]] = []

    async def run(self, message: dict[str, Any], limits: Any, collect: Any) -> Outcome:
        asked = [(number, recipes) for t in message["targets"] for number, _, recipes in t["findings"]]
        self.asked.append(asked)
        events, end = self.scripts.pop(0) if self.scripts else ([], "done")
        for event in events:
            collect(event)
        return Outcome(end)


def settled(number: int, *fixes: dict[str, Any]) -> dict[str, Any]:
    return {"event": "fixes", "number": number, "fixes": list(fixes)}


def verify(pool: Pool, made: dict[str, Any], rounds: int = 5) -> str | None:
    return asyncio.run(verifying.verify(pool, Request(PATH, ""), made, rounds))  # type: ignore[arg-type]


PROVEN = {"preferred": True, "checked": True}


def test_what_there_was_no_time_for_comes_in_the_next_job():
    made = record(Net=[finding(3, "wrap", "lift"), finding(5, "wrap")])
    first = [settled(0, fix("wrap", checked=True), fix("lift", late=True))]
    pool = Pool((first, "done"), ([settled(0, fix("lift", **PROVEN)), settled(1, fix("wrap", **PROVEN))], "done"))
    assert verify(pool, made) is None
    assert pool.asked == [[(0, None), (1, None)], [(0, ["lift"]), (1, None)]]
    shown = [[(each["id"], each["preferred"]) for each in found["fixes"]] for found in findings(made)]
    assert shown == [[("lift", True), ("wrap", False)], [("wrap", True)]]
    assert all("late" not in each for found in findings(made) for each in found["fixes"])


def test_what_ends_the_process_is_given_up_and_the_rest_goes_on():
    made = record(Net=[finding(3, "wrap"), finding(5, "wrap")])
    pool = Pool(([{"event": "checking", "number": 0}], "crash"), ([settled(1, fix("wrap", **PROVEN))], "done"))
    note = verify(pool, made)
    assert note == f"{PATH}: not all fixes were checked: the process ended"
    assert pool.asked == [[(0, None), (1, None)], [(1, None)]]
    assert [found["fixes"][0]["checked"] for found in findings(made)] == [False, True]


def test_a_job_that_does_not_get_on_is_the_last():
    pool = Pool()
    assert "it took too long" in (verify(pool, record(Net=[finding(3, "wrap")])) or "")
    assert len(pool.asked) == 1


def test_ways_out_that_only_another_model_has_are_added():
    """The submodule on its own cannot be a leaf; as part of the other model it can."""
    made = record(Gate=[finding(3, target="Gate")], Net=[finding(3, "leaf-module")])
    pool = Pool(([settled(0, fix("leaf-module", **PROVEN))], "done"))
    assert verify(pool, made) is None
    assert pool.asked == [[(0, ["leaf-module"])]]
    (found,) = findings(made)
    assert found["target"] == "Gate" and [each["id"] for each in found["fixes"]] == ["leaf-module"]
