"""The engines that models can be lowered to in an interpreter; runs none of the user's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxlens.answers import Engine
from fxlens.host.failures import explain
from fxlens.host.outcome import Failed, WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job


# In the user's interpreter


def work(job: Job) -> None:
    """One event, ``engines``: ``fxlib.lowering.Engine.as_dict`` of each."""
    from fxlib.lowering.engines import table

    job.send("engines", engines=[engine.as_dict() for engine in table().values()])


# On the server


async def run(pool: Pool, request: Request) -> list[Engine]:
    """The engines, available or not.

    Raises:
        Failed: the interpreter cannot be queried.
    """
    found: list[Engine] = []
    failure = ""

    def collect(event: Json) -> None:
        nonlocal failure
        if event.get("event") == "engines":
            found.extend(event["engines"])
        elif event.get("event") == "failed":
            failure = event["message"]

    try:
        outcome = await pool.run(request.message("engines"), request.limits, collect)
    except WorkerUnavailable as error:
        raise Failed(str(error)) from None
    if outcome.end != "done":
        failure = explain(outcome, request)["message"]
    if failure:
        raise Failed(failure)
    return found
