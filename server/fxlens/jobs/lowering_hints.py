"""Finds the operators that an engine would leave in PyTorch, in evaluation mode and without building anything."""

from __future__ import annotations

import ast
import importlib.util
import logging
import sys
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.host.outcome import Unfinished, WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.overlays import with_lowering
from fxlens.record import Finding, Origin, Record
from fxlens.sources import targets
from fxlens.sources.targets import Source, Target

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job
    from fxlib.diagnosis.fixes.loaded import Loaded

log = logging.getLogger(__name__)

_CHECK = "fxlib.lowering.obstacles"
_MISSING = "so the rules FX4 (lowering) were not applied. Install it with `pip install 'fxlens[lower]'`"


class Model(TypedDict):
    """How a model was constructed and called."""

    construct: Origin
    inputs: Origin
    alone: bool


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``lowering`` with the findings of each model of the message, or a ``note`` that says what is missing."""
    from fxlens.worker import alone, user_file
    from fxlib.diagnosis.fixes.loaded import Loaded

    if importlib.util.find_spec("onnx_ir") is None:
        job.send("note", text=f"{sys.executable} has no onnx_ir, {_MISSING}")
        return
    known = Loaded()
    models: dict[str, Model] = job.message["models"]
    tree = ast.parse(job.text)
    job.step("import")
    namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree)
    for target in targets.find(tree, job.text):
        model = models.get(target.name)
        if model is None:
            continue
        target.construct, target.inputs = [Source(**model["construct"])], [Source(**model["inputs"])]
        job.step("check", target)
        with alone.where(model["alone"]):
            job.send("lowering", target=target.name, findings=_findings(job, namespace, target))
    job.send("end", third_party=[*user_file.imported_files(known)[1], *imported(known)])


def imported(known: Loaded) -> list[str]:
    """The modules of fxlib's lowering that were imported besides ``known``, and are worth importing before the next
    job."""
    return [_CHECK] if _CHECK in known.since() else []


def _findings(job: Job, namespace: Any, target: Target) -> list[Finding]:
    from fxlens.worker import example_inputs, own_tracer, parts, render
    from fxlib.diagnosis.report import Finding as Reported
    from fxlib.lowering.obstacles import check

    try:
        made = parts.make(namespace, target)
        inputs = example_inputs.make(namespace, target, made)
        if inputs is None or inputs.values is None:
            return []
        model, concrete = made.module, inputs.concrete
        if own_tracer.is_own(job.tracer, job.leaf_modules):
            given = model.eval(), inputs.values, concrete, job.tracer, job.leaf_modules
            model, concrete = own_tracer.graph_module(*given), None
        found = check(model, inputs.values, concrete_args=concrete)
    except Exception:
        return []  # the trace reports this error
    findings = []
    for each in found:
        # Nodes that stay in PyTorch only because of an earlier one are in the lowering report, not in the margin.
        if each.cause is None:
            text = f"`{each.target}` stays in PyTorch when {target.name} is lowered: {each.reason}"
            reported = Reported(each.code, "hint", text, each.span, call_path=each.call_path, node=each.node)
            findings.append(render.finding(reported, target.name))
    return findings


# On the server


async def run(pool: Pool, request: Request, record: Record) -> tuple[Record, str | None]:
    """The record with the findings of its targets on lowering; and a sentence for the user if not all of them were
    checked."""
    models = {
        target["name"]: {each: target[each] for each in ("construct", "inputs", "alone")}
        for target in record["targets"]
        if target["status"] == "traced" and target["construct"] and target["inputs"]
    }
    if not models:
        return record, None
    found: dict[str, list[Finding]] = {}
    note: str | None = None

    def collect(event: Json) -> None:
        nonlocal note
        if event.get("event") == "lowering":
            found[event["target"]] = event["findings"]
        elif event.get("event") == "note":
            note = Unfinished(event["text"])
        elif event.get("event") == "failed":
            note = Unfinished(f"{request.path} could not be checked for lowering: {event['message']}")
            log.warning("checking %s for lowering failed: %s", request.path, event["detail"])

    try:
        message = request.message("lowering_hints", models=models)
        outcome = await pool.run(message, request.limits, collect, background=True)
    except WorkerUnavailable as error:
        return record, Unfinished(f"{request.path} could not be checked for lowering: {error}")
    if outcome.end != "done":
        note = Unfinished(f"{request.path}: the check for lowering ended early ({outcome.end})")
        log.warning("checking %s for lowering ended with %s %s", request.path, outcome.end, outcome.status)
    return with_lowering(record, found), note
