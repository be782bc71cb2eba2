"""Runs one job that needs a model for real (lower, bench, estimate) in a process of its own.

The command line and the language server both come here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import tracing
from .launch import Launch
from .outcome import WorkerUnavailable
from .pool import Pool

KINDS = ("lower", "bench", "estimate")


class Failed(Exception):
    """The job cannot be done; the text is for the user."""


async def run(
    launch: Launch,
    kind: str,
    request: tracing.Request,
    target: str | None,
    options: dict[str, Any],
    on_progress: Callable[[str, float], None],
) -> dict[str, Any]:
    """The job's result: plain data. Cancelling the task ends the process.

    Raises:
        Failed: it was refused, or its process died.
    """
    pool = Pool(launch, slots=1)
    try:
        return await run_in(pool, kind, request, target, options, on_progress)
    finally:
        await pool.close()


async def engines(pool: Pool, request: tracing.Request) -> list[dict[str, Any]]:
    """The engines that models can be lowered to: ``fxlib.lowering.Engine.as_dict`` of each.

    Raises:
        Failed: there is no worker.
    """
    result = await run_in(pool, "engines", request, None, {}, lambda text, fraction: None)
    return result["engines"]


async def run_in(
    pool: Pool,
    kind: str,
    request: tracing.Request,
    target: str | None,
    options: dict[str, Any],
    on_progress: Callable[[str, float], None],
) -> dict[str, Any]:
    """As ``run``, in a process of this pool."""
    result: dict[str, Any] = {}

    def collect(event: dict[str, Any]) -> None:
        if event.get("event") == "progress":
            on_progress(event["text"], event["fraction"])
        elif event.get("event") in ("result", "refused", "failed"):
            result.update(event)

    message = {
        "kind": kind, "path": request.path, "text": request.text, "folder": request.folder,
        "overlays": request.overlays, "deadline": request.limits.deadline, "config_targets": request.config_targets,
        "target": target, "options": options,
    }  # fmt: skip
    try:
        outcome = await pool.run(message, request.limits, collect)
    except WorkerUnavailable as error:
        raise Failed(str(error)) from None
    if result.pop("event", None) == "result":
        return result
    if result:
        raise Failed(result["message"])
    raise Failed(tracing.explain(outcome, request)["message"])
