"""The server's side of hints on lowering: one job per record, its findings written into the record's targets."""

from __future__ import annotations

import logging
from typing import Any

from .outcome import WorkerUnavailable
from .pool import Pool
from .tracing import Record, Request

log = logging.getLogger(__name__)


async def add(pool: Pool, request: Request, record: Record) -> bool:
    """Puts ``"lowering": [finding]`` into each traced target, and ``"lowering_note"``, a sentence, into the record
    where they are not all judged; whether there is any finding."""
    targets = [
        {name: target[name] for name in ("name", "construct", "inputs")}
        for target in record["targets"]
        if target["status"] == "traced" and target["construct"] and target["inputs"]
    ]
    if not targets:
        return False
    message: dict[str, Any] = {
        "kind": "lowering",
        "path": request.path,
        "text": request.text,
        "folder": request.folder,
        "overlays": request.overlays,
        "deadline": request.limits.deadline,
        "targets": targets,
    }
    found: dict[str, list[dict[str, Any]]] = {}

    def collect(event: dict[str, Any]) -> None:
        if event.get("event") == "lowering":
            found[event["target"]] = event["findings"]
        elif event.get("event") == "lowering_note":
            record["lowering_note"] = event["text"]
        elif event.get("event") == "failed":
            record["lowering_note"] = f"{request.path} was not judged for lowering: {event['message']}"
            log.warning("judging how %s lowers failed: %s", request.path, event["detail"])

    try:
        outcome = await pool.run(message, request.limits, collect)
    except WorkerUnavailable:
        return False
    if outcome.end != "done":
        record["lowering_note"] = f"judging how {request.path} lowers ended early ({outcome.end})"
        log.warning("judging how %s lowers ended with %s %s", request.path, outcome.end, outcome.status)
    for target in record["targets"]:
        target["lowering"] = found.get(target["name"], [])
    return any(found.values())
