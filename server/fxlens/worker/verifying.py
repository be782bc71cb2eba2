"""The server's side of checking fixes: one job per record, its answers written into the record's findings."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field, replace
from typing import Any

from .outcome import WorkerUnavailable
from .pool import Pool
from .tracing import Record, Request, findings

log = logging.getLogger(__name__)

_MEND_SECONDS = 60.0


async def verify(pool: Pool, request: Request, record: Record) -> str | None:
    """Replaces the proposed fixes of the record by those that hold, with their final titles.

    A fix whose check hung, crashed or did not fit into the time for the file stays as proposed: not checked, never
    preferred.  Gives a sentence for the user where that happened, else None.
    """
    shown = [finding for finding in findings(record) if finding["fixes"]]
    targets = []
    for target in record["targets"]:
        own = [(number, finding) for number, finding in enumerate(shown) if finding["target"] == target["name"]]
        if own and target["construct"]:
            inputs = target["inputs"]["text"] if target["inputs"] else None
            described = {"name": target["name"], "line": target["line"], "construct": target["construct"]["text"]}
            described["size"] = len(target["nodes"])
            targets.append({**described, "inputs": inputs, "findings": own})
    if not targets:
        return None

    skipped: list[int] = []

    def collect(event: dict[str, Any]) -> None:
        if event.get("event") == "skipped":
            skipped.append(event["count"])
        elif event.get("event") == "fixes":
            shown[event["number"]]["fixes"] = event["fixes"]
        elif event.get("event") == "failed":
            log.warning("checking the fixes of %s failed: %s", request.path, event["detail"])

    try:
        outcome = await pool.run(_message("verify", request, targets), request.limits, collect)
    except WorkerUnavailable:
        return None
    if outcome.end == "done" and not skipped:
        return None
    why = {"done": "it took too long", "timeout": f"one took more than {request.limits.deadline:g} s"}
    return f"{request.path}: not all fixes were checked: {why.get(outcome.end, 'the process ended')}"


@dataclass
class Mended:
    """Texts after every fix that proved itself, by path, and the titles of these fixes."""

    texts: dict[str, str] = field(default_factory=dict)
    applied: list[str] = field(default_factory=list)


async def mend(pool: Pool, request: Request, record: Record) -> Mended:
    """Applies the fixes of the file one after the other, each proven on what the ones before it left."""
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
        await pool.run(_message("mend", request, targets), limits, collect)
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
