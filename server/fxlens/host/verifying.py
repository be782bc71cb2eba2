"""The server's side of checking fixes: one job per record, its answers written into the record's findings."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fxlens.config.selection import Selection

from .outcome import WorkerUnavailable
from .pool import Pool
from .tracing import Record, Request, findings, same

log = logging.getLogger(__name__)

_MEND_SECONDS = 60.0


async def verify(pool: Pool, request: Request, record: Record, rounds: int = 3) -> str | None:
    """Replaces the proposed fixes of the record by those that hold, with their final titles.

    What does not fit into the time of one job is left to the next, ``rounds`` of them at most. A fix whose check hung
    or crashed stays as proposed: not checked, never preferred. Gives a sentence for the user where some were not
    checked, else None.
    """
    asked = _Asked(record)
    why = ""
    for _ in range(rounds):
        targets = asked.targets()
        if not targets:
            break
        left = asked.amount()
        try:
            outcome = await pool.run(_message("verify", request, targets), request.limits, asked.collect)
        except WorkerUnavailable:
            return None
        if outcome.end == "done":
            why = why or "it took too long"
        else:
            late = f"one took more than {request.limits.deadline:g} s"
            why = late if outcome.end == "timeout" else "the process ended"
            asked.give_up()
        if asked.amount() == left:
            break
    if asked.failed:
        log.warning("checking the fixes of %s failed: %s", request.path, asked.failed)
    if not asked.left and not asked.lost:
        return None
    return f"{request.path}: not all fixes were checked: {why}"


class _Asked:
    """The findings whose fixes are to be checked, by number, and what has become of them."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._shown = [finding for finding in findings(record) if finding["fixes"]]
        self._recipes: dict[int, list[str] | None] = dict.fromkeys(range(len(self._shown)))
        # The same problem, met by way of another model: it may have ways out of its own, such as a leaf module.
        self._same: dict[int, dict[str, Any]] = {}
        for first, other in same(record):
            more = _more_fixes(first, other)
            if more:
                number = len(self._shown)
                self._recipes[number] = more
                self._same[number] = first
                self._shown.append(other)
        self.left = {number for number in self._recipes if self._made(number)}
        self.lost: list[int] = []
        self._known: dict[int, list[dict[str, Any]]] = {}
        self.failed = ""
        self._at: int | None = None

    def _made(self, number: int) -> Any:
        name = self._shown[number]["target"]
        return next((t for t in self._record["targets"] if t["name"] == name and t["construct"]), None)

    def targets(self) -> list[dict[str, Any]]:
        """What is left, by model, for the job."""
        made: dict[str, dict[str, Any]] = {}
        for number in sorted(self.left):
            target = self._made(number)
            described = {"name": target["name"], "line": target["line"], "construct": target["construct"]["text"]}
            described |= {"size": len(target["nodes"]), "findings": []}
            described["inputs"] = target["inputs"]["text"] if target["inputs"] else None
            entry = [number, self._shown[number], self._recipes[number]]
            made.setdefault(target["name"], described)["findings"].append(entry)
        return list(made.values())

    def amount(self) -> tuple[int, int]:
        """What is left to check, to see whether a job got on."""
        return len(self.left), sum(len(known) for known in self._known.values())

    def collect(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "checking":
            self._at = event["number"]
        elif kind == "fixes":
            self._collect(event["number"], event["fixes"])
            self._at = None
        elif kind == "failed":
            self.failed = event["detail"]

    def give_up(self) -> None:
        """The one at work has ended the process, and would again."""
        if self._at is not None and self._at in self.left:
            self.left.discard(self._at)
            self.lost.append(self._at)

    def _collect(self, number: int, fixes: list[dict[str, Any]]) -> None:
        """Those that there was no time for come first in the next job."""
        fixes = [*self._known.pop(number, ()), *fixes]
        late = [fix for fix in fixes if fix.pop("late", False)]
        if late:
            self._known[number] = [fix for fix in fixes if fix not in late]
            self._recipes[number] = list(dict.fromkeys(fix["id"] for fix in late))
        else:
            self.left.discard(number)
        self._settle(number, fixes)

    def _settle(self, number: int, fixes: list[dict[str, Any]]) -> None:
        if number not in self._same:
            others = [fix for fix in self._shown[number]["fixes"] if fix.get("of_other")]
            self._shown[number]["fixes"] = _ranked([*fixes, *others])
            return
        first = self._same[number]
        own = [fix for fix in first["fixes"] if not fix.get("of_other")]
        first["fixes"] = _ranked([*own, *({**fix, "of_other": True} for fix in fixes)])


def _ranked(fixes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Proven ones first, and one preferred at most."""
    found = False
    ranked = []
    for fix in sorted(fixes, key=lambda fix: (not fix["preferred"], not fix["checked"])):
        ranked.append({**fix, "preferred": fix["preferred"] and not found})
        found = found or fix["preferred"]
    return ranked


def _more_fixes(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The recipes of one finding that the other has not."""
    known = {fix["id"] for fix in first["fixes"]}
    return list(dict.fromkeys(fix["id"] for fix in other["fixes"] if fix["id"] not in known))


@dataclass
class Mended:
    """Texts after every fix that proved itself, by path, and the titles of these fixes."""

    texts: dict[str, str] = field(default_factory=dict)
    applied: list[str] = field(default_factory=list)


async def mend(pool: Pool, request: Request, record: Record, chosen: Selection | None = None) -> Mended:
    """Applies the fixes of the file one after the other, each proven on what the ones before it left; those of findings
    that ``chosen`` or a comment leaves out are left alone."""
    targets = []
    for target in record["targets"]:
        if target["construct"] and any(fix["preferred"] for each in target["findings"] for fix in each["fixes"]):
            inputs = target["inputs"]["text"] if target["inputs"] else None
            targets.append({"construct": target["construct"]["text"], "inputs": inputs})
    mended = Mended()
    if not targets:
        return mended

    def collect(event: dict[str, Any]) -> None:
        if event.get("event") == "mended":
            mended.texts, mended.applied = event["texts"], event["applied"]
        elif event.get("event") == "failed":
            log.warning("mending %s failed: %s", request.path, event["detail"])

    limits = replace(request.limits, deadline=max(request.limits.deadline, _MEND_SECONDS))
    with contextlib.suppress(WorkerUnavailable):
        message = _message("mend", request, targets)
        message["selection"] = asdict(chosen) if chosen else {}
        await pool.run(message, limits, collect)
    return mended


def _message(kind: str, request: Request, targets: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": kind,
        "path": request.path,
        "text": request.text,
        "folder": request.folder,
        "overlays": request.overlays,
        "leaf_modules": list(request.leaf_modules),
        "deadline": request.limits.deadline,
        "targets": targets,
    }
