"""Runs models and their graphs side by side, to find differences that no rule covers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.host.failures import explain
from fxlens.host.outcome import Unfinished, WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.overlays import Compared
from fxlens.record import Finding, Record, Related, Target, assumed, related

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job

log = logging.getLogger(__name__)

_LARGEST = 30_000_000  # parameters
_MOST_FLOPS = 2_000_000_000  # of one call, if known
_NO_REASON = ("FX205", "FX207", "FX212", "FX214", "FX220", "FX221", "FX223", "FX226", "FX227", "FX240")
"""Rules whose findings do not change the results of the two calls: they concern modes, gradients, names and passes."""
_OF_GRADIENTS = ("FX211", "FX212", "FX214", "FX221", "FX233", "FX235", "FX240")
"""Rules whose findings say that gradients differ. Without one, gradients are compared, too."""


class Model(TypedDict):
    """How a model is constructed and called."""

    name: str
    line: int
    construct: str
    inputs: str
    alone: bool
    training: bool


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``compared`` for each model, with its finding, or None if it does not differ from its graph or cannot be
    compared. Models for which there is no time have no event; the first always has some."""
    from fxlens.worker import alone, render, scope, user_file
    from fxlens.worker.construct import without_what_it_lacks
    from fxlens.worker.keeping import keeping_files
    from fxlib.diagnosis.comparison.of_example import Comparing
    from fxlib.diagnosis.comparison.sides import Tracing
    from fxlib.diagnosis.engine.search import unhindered
    from fxlib.diagnosis.fixes.loaded import Loaded
    from fxlib.diagnosis.fixes.reload import forget, registrations_dropped

    load = user_file.loader(job)
    tracing = Tracing({}, frozenset(job.leaf_modules), job.tracer)

    @contextlib.contextmanager
    def loaded() -> Iterator[dict[str, Any]]:
        known = Loaded()
        with registrations_dropped():
            try:
                yield {**scope.names(), **vars(load(job.path, {}))}
            finally:
                forget(known)

    until = unhindered() + job.deadline
    models: list[Model] = job.message["models"]
    job.step("import")
    with keeping_files(), loaded() as namespace:
        comparing = Comparing(namespace, loaded, tracing, without_what_it_lacks, _LARGEST)
        for number, model in enumerate(models):
            if number and unhindered() > until:
                break
            job.announce("compare", model["name"], model["line"])
            with alone.where(model["alone"]):
                found = comparing.compare(model["construct"], model["inputs"], model["training"])
            finding = None if found is None else render.finding(found, model["name"])
            job.send("compared", target=model["name"], finding=finding)


# On the server


async def run(
    pool: Pool, request: Request, record: Record, without: Collection[str] = (), rounds: int = 3
) -> tuple[dict[str, Compared], Unfinished | None]:
    """The results of comparing the file's traced models, by name, without the targets in ``without``; and a sentence
    for the user if not all of them were compared.

    There are ``rounds`` jobs at most: models for which one has no time are left to the next, and one that ends the
    process does not cost the others their comparison.
    """
    models = [
        _model(target) for target in record["targets"] if target["name"] not in without and _is_comparable(target)
    ]
    left = {each["name"]: each for each in models[::-1]}  # models that contain others come first
    found: dict[str, Finding] = {}
    lost: dict[str, str] = {}
    failed = ""

    def collect(event: Json) -> None:
        nonlocal failed
        if event.get("event") == "compared":
            left.pop(event["target"], None)
            if event["finding"] is not None:
                found[event["target"]] = event["finding"]
        elif event.get("event") == "failed":
            failed = event["message"]
            log.warning("comparing the models of %s failed: %s", request.path, event["detail"])

    why = ""
    for _ in range(rounds):
        if not left or failed:
            break
        message = request.message("compare", models=[*left.values()])
        try:
            outcome = await pool.run(message, request.limits, collect, background=True)
        except WorkerUnavailable as error:
            why = str(error)
            break
        if outcome.end == "done":
            why = failed or "there was no time left"
            continue
        why = explain(outcome, request)["message"]
        at = outcome.step.get("target")
        if at not in left:
            break
        del left[at]  # it would end the next process, too
        lost[at] = why
    by_name = {target["name"]: target for target in record["targets"]}
    results = {name: _laid(by_name[name], each) for name, each in found.items()}
    return results, _not_compared(request.path, {**lost, **dict.fromkeys(left, why)})


def _not_compared(path: str, lost: Mapping[str, str]) -> Unfinished | None:
    """The sentence about models that were not compared, with the reason of each."""
    if not lost:
        return None
    whom = "its graph" if len(lost) == 1 else "their graphs"
    return Unfinished(
        f"{path}: {', '.join(lost)} could not be run beside {whom}, so a difference that no rule knows is not found: "
        f"{'; '.join(dict.fromkeys(lost.values()))}"
    )


def _is_comparable(target: Target) -> bool:
    flops = sum(node["flops"] or 0 for node in target["nodes"])
    known = target["construct"] and target["inputs"] and target["status"] == "traced"
    return bool(known and target["doubtful"] and flops <= _MOST_FLOPS)


def _model(target: Target) -> Model:
    construct, inputs = target["construct"], target["inputs"]
    assert construct is not None and inputs is not None
    return {
        "name": target["name"], "line": target["line"], "construct": construct["text"], "inputs": inputs["text"],
        "alone": target["alone"],
        "training": all(each["code"] not in _OF_GRADIENTS for each in target["findings"]),
    }  # fmt: skip


def _laid(target: Target, finding: Finding) -> Compared:
    """The finding, or a note on the existing silent finding that explains it."""
    silent = [
        (number, each)
        for number, each in enumerate(target["findings"])
        if each["code"].startswith("FX2") and each["code"] not in _NO_REASON
    ]
    here = [pair for pair in silent if _meets(pair[1], finding)]
    loud = [pair for pair in silent if pair[1]["severity"] in ("error", "warning")]
    if not here and not loud:
        if assumed(target):
            origin = target["inputs"] or target["construct"]
            said = f"Found with assumed inputs of {target['name']}: {origin['text'] if origin else ''}"
            finding = {**finding, "related": [*finding["related"], related(said, None, "assumed")]}
        return {"findings": [{**finding, "source": "compare"}], "notes": {}}
    number = (here or loud)[0][0]
    if not here and len(loud) > 1:
        return {"findings": [], "notes": {}}
    note: Related = related(f"Run side by side: {finding['message'].partition('. ')[0]}", finding["span"])
    return {"findings": [], "notes": {number: [note]}}


def _meets(one: Finding, other: Finding) -> bool:
    """Whether two findings share lines."""
    a, b = one["span"], other["span"]
    if a is None or b is None or a["file"] != b["file"]:
        return False
    return a["line"] <= b["end_line"] and b["line"] <= a["end_line"]
