"""Finds which sizes of a model's inputs may vary in an exported program, proven by running it at three sizes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fxlens.host.outcome import WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.record import Target
from fxlens.sources import targets
from fxlens.sources.targets import Source

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job

_LEAST_SECONDS = 120.0


# In the user's interpreter


def work(job: Job) -> None:
    """One event, ``specification``, or ``refused`` with a sentence."""
    from fxlens.jobs.captures import made
    from fxlens.worker import alone, user_file
    from fxlens.worker.errors import brief
    from fxlib.captures import specify

    tree = ast.parse(job.text)
    job.step("import")
    namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree)
    target = next(each for each in targets.find(tree, job.text) if each.name == job.message["target"])
    target.construct, target.inputs = [Source(**job.message["construct"])], [Source(**job.message["inputs"])]
    job.step("shapes", target)
    try:
        with alone.where(job.message["alone"]):
            module, inputs, _ = made(namespace, target)
            found = specify(module, inputs)
    except Exception as error:
        job.send("refused", text=brief(error))
        return
    sizes = {root: [each[root] for each in found.sizes] for root in found.ranges}
    job.send("specification", text=found.text, sizes=sizes, proven=found.proven, limits=found.limits)


# On the server


@dataclass(frozen=True)
class Specification:
    """``dynamic_shapes`` as source, in which ``Dim`` is torch's; the sizes by name at which the exported program agreed
    with eager; and why others were left out."""

    text: str = ""
    sizes: dict[str, list[int]] | None = None
    limits: tuple[str, ...] = ()
    problem: str = ""


async def run(pool: Pool, request: Request, target: Target) -> Specification:
    """The specification for a model.  Its ``problem`` is a sentence for the user if there is none."""
    name = target["name"]
    found = Specification(problem=f"The sizes of {name} could not be tried")

    def collect(event: Json) -> None:
        nonlocal found
        if event.get("event") == "specification":
            problem = ""
            if not event["sizes"]:
                problem = f"No size of the inputs of {name} can vary in an exported program"
            elif not event["proven"]:
                problem = f"The exported program of {name} did not agree with eager at three sizes"
            found = Specification(event["text"], event["sizes"], tuple(event["limits"]), problem)
        elif event.get("event") in ("refused", "failed"):
            found = Specification(problem=f"{name} could not be exported: {event.get('text') or event.get('message')}")

    limits = replace(request.limits, deadline=max(request.limits.deadline, _LEAST_SECONDS))
    how: dict[str, Any] = {each: target[each] for each in ("construct", "inputs", "alone")}
    message = replace(request, limits=limits).message("dynamic_shapes", target=name, **how)
    try:
        await pool.run(message, limits, collect, captures=True)
    except WorkerUnavailable as error:
        return Specification(problem=str(error))
    return found
