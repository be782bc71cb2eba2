"""Traces the models of a file one after the other, and says of each what was found as soon as it is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fxlens import record
from fxlens.record import Finding, Origin, Severity, Status
from fxlens.sources.targets import Source, Target

from . import alone, assumed, construct, problems, render
from .job import Job

_MISSING = ("ModuleNotFoundError: ", "NotInstalled: ", *alone.ABOUT)
"""What failures say that lie in the machine and not in the code."""
_DEVICE = re.compile(r"\bmeta\b|same device|expected device")
Roots = list[tuple[str, Any]]
"""Name and module of the models that were made."""


@dataclass(frozen=True)
class Traced:
    """A model that has a graph, and what its graph's part of the record is made of."""

    name: str
    report: Any
    root: Any
    inputs: construct.Inputs | None


def trace_all(job: Job, namespace: Any, models: Iterable[Target], own_device: bool) -> list[Traced]:
    """Sends a ``target`` event for each model; gives those that have a graph.

    ``own_device`` says that code of the file looks where a module's own tensors are.
    """
    traced: list[Traced] = []
    failed: list[tuple[Target, record.Target]] = []
    roots: Roots = []
    for target in models:
        found, graph = _trace(job, namespace, target, own_device, roots)
        if graph is not None:
            traced.append(graph)
        if found["status"] == "skipped" and found["findings"]:
            failed.append((target, found))
        else:
            job.send("target", target=found)
    for target, found in failed:
        holder = _part_of(namespace, target, roots)
        if holder and found["findings"][0]["severity"] == "hint":
            found = {**found, "findings": [], "reason": f"{record.PART_OF}{holder}"}
        job.send("target", target=found)
    return traced


def _part_of(namespace: Any, target: Target, roots: Roots) -> str | None:
    """The root that holds an instance of this class, as ``ResNet50 (layer1.0)``."""
    kind = getattr(namespace, target.name)
    for name, root in roots:
        for path, module in root.named_modules():
            if path and type(module) is kind:
                return f"{name} ({path})"
    return None


def _trace(
    job: Job, namespace: Any, target: Target, own_device: bool, roots: Roots
) -> tuple[record.Target, Traced | None]:
    """The target's part of the record without its graph; what that is made of where it could be traced at all."""
    found = record.target(target.name, problems.name_span(job, target))
    if target.skip:
        return _skipped(found, "left out by a comment"), None
    if target.leaf:
        return _skipped(found, "the project's configuration makes it a leaf module"), None
    kind = getattr(namespace, target.name)
    if not _asked(target) and assumed.is_abstract(namespace, kind):
        return _skipped(found, record.ABSTRACT), None
    started = time.perf_counter()
    doing = "constructing it"
    findings: list[Finding] = []
    guess = _Guess(target.name, names_missing=job.incomplete)
    try:
        job.step("construct", target)
        made = _made(job, namespace, target, own_device)
        found = {**found, "construct": _origin(made.source)}
        roots.append((target.name, made.module))
        if made.source.source == "assumed":
            guess.construct = made.source.text
            job.assumed = True
        doing = "making its inputs"
        job.step("inputs", target)
        inputs = _inputs(job, namespace, target, made, findings)
        built = time.perf_counter()
        doing = "tracing it"
        job.step("trace", target)
        report, inputs = _diagnose(job, namespace, target, made, inputs, guess, infer=not findings)
        findings += [render.finding(each, target.name, _proposals(job, each)) for each in report.findings]
    except construct.CannotConstruct as error:
        if not isinstance(error.__cause__, (RecursionError, MemoryError)):
            problem = problems.not_constructed(job, namespace, target, error)
            return _skipped(found, str(error), problem), None
        return _failed(found, [problems.raised(job, target, error.__cause__, doing)]), None
    except BaseException as error:
        findings.append(problems.raised(job, target, error, doing))
        return _failed(found, [guess.judge(each) for each in findings]), None
    finally:
        job.assumed = False
    found = {
        **found,
        "inputs": _origin(inputs.source) if inputs else None,
        "status": _status(report),
        "reason": _reason(report),
        "findings": [guess.judge(each) for each in findings],
        "untaken": render.untaken(report.untaken),
        "baked": render.baked(report.baked),
        "timings": {"build": milliseconds(started, built), "trace": milliseconds(built, time.perf_counter())},
    }
    return found, Traced(target.name, report, made.module, inputs)


@dataclass
class _Guess:
    """What was assumed of a model: a finding that may depend on it is a warning at most, and says so.

    ``sure`` are the findings that hold whatever the inputs are, None where there are no such.
    """

    name: str
    construct: str = ""
    inputs: str = ""
    sure: set[tuple[Any, ...]] | None = None
    names_missing: bool = False

    def judge(self, finding: Finding) -> Finding:
        missing = (*_MISSING, "NameError: ") if self.names_missing else _MISSING
        if finding["code"] == "FX199" and any(each in finding["message"] for each in missing):
            return record.graded(finding, "info")  # nothing is wrong with the code
        if self.construct:
            text = f"This holds for an assumed construction of {self.name}: {self.construct}"
        elif self.inputs and _identity(finding) not in (self.sure or ()):
            text = f"This holds for assumed inputs of {self.name}: {self.inputs}"
        else:
            return finding
        severity: Severity = "warning" if finding["severity"] == "error" else finding["severity"]
        said = record.related(text, None, "assumed")
        return {**record.graded(finding, severity), "related": [*finding["related"], said]}


def _identity(finding: Finding) -> tuple[Any, ...]:
    span = finding["span"]
    return (finding["code"], span and (span["file"], span["line"], span["column"]))


def _asked(target: Target) -> bool:
    return any(source.source in construct.ASKED for source in target.construct)


def _made(job: Job, namespace: Any, target: Target, own_device: bool) -> construct.Made:
    """The module, in a torch that no other model has changed."""
    import torch

    def search() -> None:
        job.assumed = True
        job.step("assume", target)

    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.manual_seed(0)
    made = construct.make(namespace, target, search)
    if made.meta and own_device and construct.is_small(made.module):
        made = construct.make_real(namespace, made)
    return made


def _inputs(
    job: Job, namespace: Any, target: Target, made: construct.Made, findings: list[Finding]
) -> construct.Inputs | None:
    try:
        return construct.make_inputs(namespace, target, made)
    except construct.CannotUseInputs as error:
        findings.append(problems.inputs_do_not_fit(job, target, error))
        return None


def _diagnose(
    job: Job,
    namespace: Any,
    target: Target,
    made: construct.Made,
    inputs: construct.Inputs | None,
    guess: _Guess,
    infer: bool,
) -> tuple[Any, construct.Inputs | None]:
    """The report, and the inputs that it was made with: inferred ones where there are no others."""
    from fxlib.diagnosis.diagnose import diagnose

    def report(given: construct.Inputs | None) -> Any:
        values, concrete = (given.values, given.concrete) if given else (None, None)
        return diagnose(made.module, values, concrete_args=concrete, leaf_modules=job.leaf_modules)

    first = report(inputs)
    if made.meta and _about_meta(first) and construct.is_small(made.module):
        # Nobody but FX Lens has made it on meta.
        again = construct.make_real(namespace, made)
        made.module, made.meta = again.module, again.meta
        inputs = _inputs(job, namespace, target, made, []) if inputs is not None else None
        first = report(inputs)
    if not infer or (inputs is not None and inputs.values is not None):
        return first, inputs
    inferred = construct.infer_inputs(namespace, target, made, inputs, first.graph)
    if inferred is inputs or inferred is None:
        return first, inputs
    if inferred.source.source in ("assumed", "inferred"):
        guess.inputs = inferred.source.text
        guess.sure = {_identity(render.finding(each, target.name)) for each in first.findings}
    return report(inferred), inferred


def _about_meta(report: Any) -> bool:
    return any(each.code == "FX199" and _DEVICE.search(each.message) for each in report.findings)


def _proposals(job: Job, finding: Any) -> list[record.Fix]:
    """What might fix it, not checked yet: the ``verify`` job does that."""
    from fxlib.diagnosis import fixes

    return [render.fix(each) for each in fixes.propose(finding, job.read)]


def _status(report: Any) -> Status:
    return "traced" if report.graph_module is not None else "partial" if report.graph is not None else "failed"


def _reason(report: Any) -> str | None:
    if report.graph_module is not None:
        return None
    loud = [each for each in report.findings if each.loud]
    return loud[0].message if loud else "torch.fx cannot trace it"


def _skipped(found: record.Target, reason: str, *findings: Finding) -> record.Target:
    return {**found, "status": "skipped", "reason": reason, "findings": findings}


def _failed(found: record.Target, findings: list[Finding]) -> record.Target:
    return {**found, "status": "failed", "reason": findings[-1]["message"], "findings": findings}


def _origin(source: Source) -> Origin:
    return record.origin(source.text, source.source, source.line, source.file)


def milliseconds(start: float, end: float) -> float:
    return round((end - start) * 1000, 2)
