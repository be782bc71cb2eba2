"""What the names in the code of one model hold while it is traced: for hovers."""

from __future__ import annotations

import ast
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxlens.host.outcome import WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.record import Origin, Target
from fxlens.sources import known as known_of
from fxlens.sources.paths import key
from fxlens.sources.targets import Source

if TYPE_CHECKING:
    from types import ModuleType

    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Value:
    """What a name held: a text, the node that computes it (empty: Python alone does), and the paths of the modules in
    whose code it did."""

    text: str
    node: str
    paths: Sequence[str]


Names = dict[tuple[str, int, str, bool], list[Value]]
"""By file, line, name, and whether the line sets it: see `fxlib.diagnosis.names.Name`."""


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``names``; ``unfit`` where a kept file has to be executed again."""
    from fxlens.worker import alone, construct, example_inputs, kept, parts, reading, render, user_file
    from fxlib.diagnosis.names import names_in

    tree = ast.parse(job.text)
    read = reading.whole(job, tree)
    known_of.add(read.found.targets, job.known)
    job.step("import")
    namespace: ModuleType | None
    if kept.is_there():
        namespace = kept.renewed(job, tree)
    else:
        namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree)
    if namespace is None:
        job.send("unfit")
        return
    if job.tracer is not None:
        job.tracer.load()
    target = next(each for each in read.found.targets if each.name == job.message["target"])
    constructed: Origin = job.message["construct"]
    called: Origin | None = job.message["inputs"]
    target.leaf = construct.is_leaf(namespace, target, job.leaf_modules)
    job.step("construct", target)
    made = kept.made(target)
    if made is None or made.source.text != constructed["text"]:
        target.construct = [Source(**constructed)]
        made = parts.make(namespace, target)
    if made.meta and read.own_device and construct.is_small(made.module):
        made = construct.make_real(namespace, made)
    target.inputs = [Source(**called)] if called else []
    job.step("inputs", target)
    inputs = example_inputs.make(namespace, target, made)
    values, concrete = (inputs.values, inputs.concrete) if inputs else (None, None)
    job.step("trace", target)
    options: dict[str, Any] = {"concrete_args": concrete, "leaf_modules": job.leaf_modules, "tracer": job.tracer}
    with alone.where(job.message["alone"]):
        found = names_in(made.module, values, **options)
    job.send("names", names=[[*name, render.held(held)] for name, held in found.items()])


# On the server


async def run(pool: Pool, request: Request, target: Target) -> Names:
    """What is known of the names that the code of a model reads and sets, in all files; nothing where that fails."""
    found: Names = {}

    def collect(event: Json) -> None:
        if event.get("event") == "names":
            for file, line, name, stored, values in event["names"]:
                found[key(file), line, name, stored] = [Value(*each) for each in values]
        elif event.get("event") == "failed":
            log.info("the names in %s of %s are not known: %s", target["name"], request.path, event["message"])

    given = {each: target[each] for each in ("construct", "inputs", "alone")}
    try:
        await pool.run(request.message("names", target=target["name"], **given), request.limits, collect)
    except WorkerUnavailable:
        return {}
    return found
