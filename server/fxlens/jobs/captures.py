"""Runs torch.export and torch.compile on models, in addition to a trace.

The processes of these jobs are forks of a separate zygote that has imported torch's compiler, which takes seconds.
"""

from __future__ import annotations

import ast
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.host.failures import explain
from fxlens.host.outcome import Unfinished, WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.overlays import Captured
from fxlens.record import Finding, Fix, Origin, Record, Span, Verdict, assumed, graded
from fxlens.record import Target as Traced
from fxlens.sources import targets
from fxlens.sources.targets import Source, Target

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job

log = logging.getLogger(__name__)

ORDER = ("export", "compile", "strict", "shapes")
_LEAST_SECONDS = 60.0  # for one capture of one model; ResNet-50 takes ten on a slow machine
_SMALL = 2_000_000  # parameters; larger models are captured without data if possible


class _Known(TypedDict):
    """A finding of torch.fx, reduced to what the other captures need; ``number`` counts those of its model."""

    number: int
    code: str
    severity: str
    message: str
    span: Span | None


class Model(TypedDict):
    """How a model was constructed and called, and torch.fx's findings about it."""

    construct: Origin
    inputs: Origin
    alone: bool
    findings: list[_Known]


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``captured`` for each model, again with each further verdict; ``end``."""
    from fxlens.worker import alone, capturing, read_files, user_file  # noqa: F401
    from fxlib.diagnosis.fixes.loaded import Loaded

    known = Loaded()
    models: dict[str, Model] = job.message["models"]
    wanted: list[str] = job.message["captures"]
    tree = ast.parse(job.text)
    job.step("import")
    namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree)
    read_files.end()
    for target in targets.find(tree, job.text):
        model = models.get(target.name)
        if model is not None:
            target.construct, target.inputs = [Source(**model["construct"])], [Source(**model["inputs"])]
            with alone.where(model["alone"]):
                try:
                    _judge(job, namespace, target, model, wanted)
                except SystemExit as error:
                    # As it would, so that it is told.
                    os._exit(0 if error.code is None else error.code if isinstance(error.code, int) else 1)
    job.send("end", third_party=user_file.imported_files(known)[1])


def _judge(job: Job, namespace: Any, target: Target, model: Model, wanted: Iterable[str]) -> None:
    from fxlens.worker import captured, construct, example_inputs
    from fxlib.captures import judge
    from fxlib.diagnosis.report import Report

    job.step("construct", target)
    try:
        module, inputs, has_data = made(namespace, target)
    except (construct.CannotConstruct, example_inputs.CannotUseInputs):
        return  # the trace reports it
    report = Report([_as_finding(each) for each in model["findings"]])
    judgement = None
    verdicts: list[Verdict] = []
    for name in wanted:
        job.step(name, target)
        found = judge(module, inputs, captures=[name], report=report, earlier=judgement)
        if not has_data and found.verdicts[name].outcome not in ("captured", "pinned"):
            # On the meta device torch rejects more than with data.
            module, inputs, has_data = *with_data(namespace, target), True
            found = judge(module, inputs, captures=[name], report=report, earlier=judgement)
        judgement = found
        verdicts.append(captured.verdict(found.verdicts[name]))
        fixes: dict[int, list[Fix]] = {}
        if name == "shapes":
            fixes = _of_examples(job, namespace, target, module, judgement, has_data)
        entries = _entries(judgement, target.name, job.read, fixes)
        job.send("captured", target=target.name, verdicts=verdicts, **entries)


def _of_examples(
    job: Job, namespace: Any, target: Target, module: Any, judgement: Any, has_data: bool
) -> dict[int, list[Fix]]:
    """Moves findings on sizes of 1 to the place where the user wrote these, and drops those on generated examples.
    Returns the fixes, by the numbers of the remaining findings."""
    from fxlens.worker import example_of_one

    fixes: dict[int, list[Fix]] = {}
    kept: list[Any] = []
    for each in judgement.findings:
        if each.code == "FX702":
            found = example_of_one.placed(job, namespace, target, module, each, has_data)
            if found is None:
                continue
            each, fixes[len(kept)] = found
        kept.append(each)
    judgement.findings = kept
    return fixes


def made(namespace: Any, target: Target) -> tuple[Any, dict[str, Any] | tuple[Any, ...], bool]:
    """The model, its inputs, and whether they have data: yes, unless the model is large and runs without."""
    import copy

    module, inputs, meta = _made(namespace, target, real=False)
    if not meta:
        return module, inputs, True
    if sum(each.numel() for each in module.parameters()) > _SMALL:
        try:
            trial = copy.deepcopy(module)
            trial(**inputs) if isinstance(inputs, dict) else trial(*inputs)
            return module, inputs, False
        except Exception:  # it needs data
            pass
    return *with_data(namespace, target), True


def with_data(namespace: Any, target: Target) -> tuple[Any, dict[str, Any] | tuple[Any, ...]]:
    """The model and its inputs with data, even if the trace runs without."""
    return _made(namespace, target, real=True)[:2]


def _made(namespace: Any, target: Target, real: bool) -> tuple[Any, dict[str, Any] | tuple[Any, ...], bool]:
    import inspect

    import torch

    from fxlens.worker import construct, example_inputs, parts

    torch.manual_seed(0)
    one = parts.make(namespace, target)
    if real:
        one = construct.make_real(namespace, one)
    inputs = example_inputs.make(namespace, target, one)
    if inputs is None or inputs.values is None:
        raise example_inputs.CannotUseInputs("it has no example inputs", target.inputs[0])
    if not inputs.concrete:
        return one.module, inputs.values, one.meta
    if isinstance(inputs.values, dict):
        return one.module, {**inputs.values, **inputs.concrete}, one.meta
    names = inspect.signature(one.module.forward).parameters
    return one.module, {**dict(zip(names, inputs.values, strict=False)), **inputs.concrete}, one.meta


def _as_finding(known: _Known) -> Any:
    from fxlib.diagnosis.report import Finding as Reported
    from fxlib.ir.span import Span as Place

    span = Place(**known["span"]) if known["span"] else None
    return Reported(known["code"], known["severity"], known["message"], span, data={"number": known["number"]})


def _entries(
    judgement: Any, name: str, read: Callable[[str], str | None], fixes: dict[int, list[Fix]]
) -> dict[str, Any]:
    """``fixes`` are those that are known already, by the number of the finding."""
    from fxlens.worker import render

    also, findings = [], []
    for number, each in enumerate(judgement.findings):
        entry = render.finding(each, name, fixes[number] if number in fixes else _proposals(each, read))
        if "fx" in each.data["captures"]:
            also.append(
                {
                    "number": each.data["number"], "captures": entry["captures"], "severities": entry["severities"],
                    "related": entry["related"], "fixes": entry["fixes"],
                }
            )  # fmt: skip
        else:
            findings.append(entry)
    return {"findings": findings, "also": also}


def _proposals(finding: Any, read: Callable[[str], str | None]) -> list[Fix]:
    """Unchecked fixes for a capture; those for torch.fx exist already."""
    import dataclasses

    from fxlens.worker import render
    from fxlib.diagnosis.fixes import propose, recipes_of

    captures: dict[str, str] = finding.data["captures"]
    known = set(recipes_of(captures["fx"])) if "fx" in captures else set()
    fixes: list[Fix] = []
    for capture, code in captures.items():
        if capture in ("export", "compile"):
            own = dataclasses.replace(finding, code=code)
            recipes = [each for each in recipes_of(code) if each not in known]
            known.update(recipes)
            purpose = "shapes" if code.startswith("FX7") else capture
            fixes += [render.fix(each, purpose) for each in propose(own, read, recipes)]
    return fixes


# On the server


async def run(
    pool: Pool,
    request: Request,
    record: Record,
    names: Iterable[str],
    captures: Iterable[str],
    on_change: Callable[[str, Captured], None] = lambda name, captured: None,
) -> tuple[dict[str, Captured], str | None]:
    """The verdicts of the captures on some of the models of a file, by name; and a sentence for the user if not
    everything was run.

    ``on_change`` is called with a model's results after each verdict.
    """
    targets_of = {target["name"]: target for target in record["targets"]}
    models = {each: model for each in names if (model := model_of(targets_of[each])) is not None}
    asked = [each for each in ORDER if each in captures or (each == "shapes" and "export" in captures)]
    found: dict[str, Captured] = {}
    note: str | None = None
    not_run = f"{request.path}: torch.export and torch.compile could not be run on its models"

    def collect(event: Json) -> None:
        nonlocal note
        if event.get("event") == "captured":
            name = event["target"]
            found[name] = {"verdicts": event["verdicts"], "findings": event["findings"], "also": event["also"]}
            on_change(name, found[name])
        elif event.get("event") == "failed":
            note = Unfinished(f"{not_run}: {event['message']}")
            log.warning("asking torch about %s failed: %s", request.path, event["detail"])

    limits = replace(request.limits, deadline=max(request.limits.deadline, _LEAST_SECONDS))
    left = dict(models)
    while left and asked:
        message = replace(request, limits=limits).message("captures", models=left, captures=asked)
        try:
            outcome = await pool.run(message, limits, collect, captures=True)
        except WorkerUnavailable as error:
            return found, Unfinished(f"{not_run}: {error}")
        at = outcome.step.get("target")
        if outcome.end == "done":
            break
        ended = explain(outcome, replace(request, limits=limits))
        if at not in left:
            note = Unfinished(f"{not_run}: {ended['message']}")
            break
        # The current model ended the process, or used up the time: keep its other verdicts and continue with the next
        # model.
        guessed = any(each["name"] == at and assumed(each) for each in record["targets"])
        found[at] = _lost(found.get(at), asked, graded(ended, "hint") if guessed else ended)
        on_change(at, found[at])
        reached = [*left].index(at)
        left = dict([*left.items()][reached + 1 :])
    return found, note


def model_of(target: Traced) -> Model | None:
    """What is sent of a model of a record; None if it cannot be constructed or called."""
    if target["construct"] is None or target["inputs"] is None:
        return None
    findings: list[_Known] = [
        {
            "number": number, "code": each["code"], "severity": each["severity"], "message": each["message"],
            "span": each["span"],
        }
        for number, each in enumerate(target["findings"])
        if "fx" in each["captures"]
    ]  # fmt: skip
    return {
        "construct": target["construct"], "inputs": target["inputs"], "alone": target["alone"], "findings": findings,
    }  # fmt: skip


def _lost(known: Captured | None, asked: Iterable[str], ended: Finding) -> Captured:
    verdicts = [*known["verdicts"]] if known else []
    answered = {each["capture"] for each in verdicts}
    lost: list[Verdict] = [
        {
            "capture": name, "outcome": "unknown", "text": f"{name} ?", "reason": ended["message"], "breaks": 0,
            "graphs": 0, "fullgraph": None, "graph": None,
        }
        for name in asked
        if name not in answered
    ]  # fmt: skip
    return {
        "verdicts": [*verdicts, *lost],
        "findings": [*(known["findings"] if known else ()), ended],
        "also": known["also"] if known else [],
    }
