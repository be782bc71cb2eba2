"""Traces the models of a file one after the other, and reports each result at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fxlens import record
from fxlens.ipc.protocol import Json
from fxlens.record import Finding, Origin, Severity, Status
from fxlens.sources.targets import Source, Target, arrange

from . import alone, construct, example_inputs, kept, outside, placeholders, problems, render, specified, unchanged
from .job import Job
from .parts import Parts
from .scope import class_named

_MISTAKES = ("NameError: ", "UnboundLocalError: ", "AttributeError: module ")
_MISSING = (
    "ModuleNotFoundError: ",
    "NotInstalled: ",
    "'NoWeights' object",
    "'Unusable' object",
    placeholders.MARK,
)
"""Messages of failures due to the machine, not the code."""
_OWN_INPUTS = ("assumed", "inferred")
_DEVICE = re.compile(r"(?i:meta)\b|register_meta|same device|expected device")


@dataclass(frozen=True)
class Traced:
    """A model with a graph, and the data for the graph's part of the record."""

    target: Target
    report: Any
    root: Any
    inputs: example_inputs.Inputs | None
    recorded: list[example_inputs.Values]
    """Further inputs from recorded calls."""
    shapes: specified.Said
    """Its ``dynamic_shapes`` from the file."""

    @property
    def name(self) -> str:
        return self.target.name


@dataclass
class _Work:
    """A target in progress: its record so far, and the module once constructed."""

    target: Target
    found: record.Target
    ways: construct.Construction
    made: construct.Made | None = None
    like: Source | None = None
    """The inputs from a model that contains it."""
    aside: bool = False
    seconds: float = 0.0
    """The time of its construction."""


def trace_all(
    job: Job, namespace: Any, models: list[Target], own_device: bool, before: unchanged.Nothing
) -> list[Traced]:
    """Sends a ``target`` event for each model, or ``same`` if the one ``before`` the edit is still valid; returns the
    traced ones with a graph.

    Models come before their parts, which are then constructed and called as within them. ``own_device``: code of the
    file reads the device of a module's own tensors.
    """
    still = before.still(models, own_device)
    for name in still:
        job.send("same", target=name)
    models = [each for each in models if each.name not in still]
    parts = Parts(namespace, before.apart)
    traced: list[Traced | None] = []
    failed: list[tuple[_Work, record.Target]] = []
    # After a class that crashed a process, another one may: report each result at once.
    for together in [[each] for each in models] if job.message["skip"] else [models]:
        begun: list[_Work] = []
        for target in together:
            with before.during(target.name, building=True):
                begun += _begin(job, namespace, target, known=before.once(target.name) is not None)
        for work in begun:
            if work.made is not None:
                parts.add(work.made)
                before.built(work.target.name, work.made.module)
        # The class at the cursor comes first, with the models that contain it; losses and the like, which are not
        # captured, come last.
        first = _around(namespace, begun, job.message["cursor"])
        rank = {id(each): (each.target.name not in first, each.aside, parts.holders(each.ways.kind)) for each in begun}
        begun.sort(key=lambda each: (each.made is None, *rank[id(each)]))
        for work in begun:
            try:
                with before.during(work.target.name):
                    traced.append(_trace(job, namespace, work, parts, own_device, before))
            except construct.CannotConstruct as error:
                failed.append((work, _not_made(job, namespace, work, error)))
    for work, found in failed:
        part = parts.find(work.ways.kind, assumed=True)
        if part is None:
            job.send("target", target=found)
        else:
            work.made, work.like = part.made(), part.inputs
            with before.during(work.target.name):
                traced.append(_trace(job, namespace, work, parts, own_device, before))
    return [each for each in traced if each is not None]


def _around(namespace: Any, begun: list[_Work], name: str) -> set[str]:
    """A class and the models that hold it, by name."""
    kind = class_named(namespace, name) if name else None
    found = {name} if kind is not None else set()
    for work in begun if kind is not None else ():
        if work.made is not None and any(type(module) is kind for module in work.made.module.modules()):
            found.add(work.target.name)
    return found


def _begin(job: Job, namespace: Any, target: Target, known: bool) -> list[_Work]:
    """The target with its module, if a construction is given; no module if the record is already complete. It is not
    skipped if it is ``known`` to be constructible."""
    found = record.target(target.name, problems.name_span(job, target))
    if not known and (reason := construct.left_out(namespace, target)):
        job.send("target", target=_skipped(found, reason))
        return []
    work = _Work(target, found, construct.Construction(namespace, target))
    work.aside = bool(job.known.get(target.name, {}).get("aside"))
    job.step("construct", target)
    started = time.perf_counter()
    try:
        construct.fresh()
        with outside.constructing(target.name):
            work.made = kept.made(target) or work.ways.said()
    except BaseException as error:
        job.send("target", target=_not_made(job, namespace, work, error))
        return []
    work.seconds = time.perf_counter() - started
    return [work]


def _not_made(job: Job, namespace: Any, work: _Work, error: BaseException) -> record.Target:
    if not isinstance(error, construct.CannotConstruct):
        return _failed(work.found, [problems.raised(job, work.target, error, "constructing it")])
    if isinstance(error.__cause__, (RecursionError, MemoryError)):
        return _failed(work.found, [problems.raised(job, work.target, error.__cause__, "constructing it")])
    return _skipped(work.found, str(error), problems.not_constructed(job, namespace, work.target, error))


def _trace(
    job: Job, namespace: Any, work: _Work, parts: Parts, own_device: bool, before: unchanged.Nothing
) -> Traced | None:
    """Sends the target's part of the record without its graph; returns the data for the graph, if it could be traced.
    Raises CannotConstruct."""
    target, found = work.target, work.found
    started = time.perf_counter() - work.seconds
    doing = "constructing it"
    findings: list[Finding] = []
    guess = _Guess(target.name, job.read, names_missing=job.incomplete)
    try:
        job.step("construct", target)
        said = _said(work, parts)
        guess.searched = said is None
        once = before.once(target.name)
        if said is None and once is not None and once["searched"]:
            job.send("same", target=target.name)
            return None
        with before.during(target.name, building=True):
            made = _made(job, namespace, work, said, own_device)
        before.built(target.name, made.module)
        if job.known.get(target.name, {}).get("alone"):
            alone.needed(made.module)
        if made.source.source == "assumed":
            guess.construct = made.source.text
            job.assumed = True
        if once is not None and _calls_again(once, made, target.inputs, work.like):
            parts.add_lazily(made, lambda: example_inputs.make(namespace, target, made))
            job.send("same", target=target.name)
            return None
        doing = "making its inputs"
        job.step("inputs", target)
        made, inputs = _inputs(job, namespace, work, made, parts, findings)
        called = _called(made, inputs, work.like, searched=said is None)
        if called == once and not findings:
            parts.add(made, inputs)
            job.send("same", target=target.name)
            return None
        if not findings:
            before.called(target.name, called)
        found = {**found, "construct": _origin(made.source)}
        built = time.perf_counter()
        doing = "tracing it"
        job.step("trace", target)
        report, inputs = _diagnose(job, namespace, work, made, parts, inputs, guess, infer=not findings)
        of_user = inputs is not None and inputs.values is not None and inputs.source.source not in _OWN_INPUTS
        guess.own_inputs = not findings and not of_user
        guess.fails = (
            not findings and inputs is None and made.source.source not in ("comment", "config", "recorded", "instance")
        )
        findings += [render.finding(each, target.name, _proposals(job, each)) for each in report.findings]
    except construct.CannotConstruct:
        raise
    except BaseException as error:
        findings.append(problems.raised(job, target, error, doing))
        job.send("target", target=_failed(found, [guess.judge(each) for each in findings]))
        return None
    finally:
        job.assumed = False
    parts.add(made, inputs)
    found = {
        **found,
        "inputs": _origin(inputs.source) if inputs else None,
        "status": _status(report),
        "reason": _reason(report),
        "findings": [guess.judge(each) for each in findings],
        "taken": [render.span_of(each) for each in report.taken],
        "untaken": render.untaken(report.untaken),
        "baked": render.baked(report.baked),
        "alone": alone.needs(made.module),
        "timings": {"build": milliseconds(started, built), "trace": milliseconds(built, time.perf_counter())},
    }
    job.send("target", target=found)
    others = example_inputs.others(namespace, target, made, inputs)
    return Traced(target, report, made.module, inputs, others, specified.read(namespace, target.name))


@dataclass
class _Guess:
    """Assumptions about a model: a finding that may depend on them is at most a warning, and says so.

    ``sure`` are the findings independent of the inputs, None if there are none; ``searched``: its construction is
    assumed; ``fails``: its forward fails on all tried inputs; ``own_inputs``: its inputs are assumed.
    """

    name: str
    read: Callable[[str], str | None]
    construct: str = ""
    inputs: str = ""
    sure: set[tuple[Any, ...]] | None = None
    names_missing: bool = False
    searched: bool = False
    fails: bool = False
    own_inputs: bool = False

    def judge(self, finding: Finding) -> Finding:
        missing = (*_MISSING, "NameError: ") if self.names_missing else _MISSING
        if finding["code"] in ("FX190", "FX199") and (
            any(each in finding["message"] for each in missing)
            or alone.is_told(finding["message"])
            or problems.is_import_that_failed(finding, self.read)
            or problems.asks_for_device(finding, self.read)
        ):
            return record.graded(finding, "info")  # nothing is wrong with the code
        if finding["code"] == "FX303" and self.own_inputs:
            return record.graded(finding, "info")  # nor with what the user wrote
        own = f"AttributeError: '{self.name.rpartition('.')[2]}' object has no attribute"
        mistake = finding["code"] != "FX199" or any(each in finding["message"] for each in (*_MISTAKES, own))
        if not mistake and not self.construct and (self.searched or self.fails):
            return record.graded(finding, "info")  # not about tracing: the construction is probably wrong
        if self.construct:
            text = f"Found with assumed arguments of {self.name}: {self.construct}"
        elif self.inputs and _identity(finding) not in (self.sure or ()):
            text = f"Found with assumed inputs of {self.name}: {self.inputs}"
        else:
            return finding
        severity: Severity = "warning" if finding["severity"] == "error" else finding["severity"]
        if self.construct and finding["code"] == "FX199":
            severity = "info"  # not about tracing: the assumed arguments are probably inconsistent
        said = record.related(text, None, "assumed")
        return {**record.graded(finding, severity), "related": [*finding["related"], said]}


def _identity(finding: Finding) -> tuple[Any, ...]:
    span = finding["span"]
    return (finding["code"], span and (span["file"], span["line"], span["column"]))


def _said(work: _Work, parts: Parts) -> construct.Made | None:
    """The module by a given construction, or as a part of a model."""
    construct.fresh()
    made = work.made
    if made is None:
        part = parts.find(work.ways.kind)
        if part is None:
            made = parts.look(work.target)
            part = parts.find(work.ways.kind)
        if part is not None:
            made, work.like = part.made(), part.inputs
    return made


def _made(job: Job, namespace: Any, work: _Work, made: construct.Made | None, own_device: bool) -> construct.Made:
    """The module by a given construction, or else an assumed one; with data if its code needs some."""
    if made is None:
        job.assumed = True
        job.step("assume", work.target)
        with outside.constructing(work.target.name):
            made = work.ways.assumed()
    if made.meta and own_device and construct.is_small(made.module):
        made = construct.make_real(namespace, made)
    work.made = made
    return made


def _inputs(
    job: Job, namespace: Any, work: _Work, made: construct.Made, parts: Parts, findings: list[Finding]
) -> tuple[construct.Made, example_inputs.Inputs | None]:
    """The given inputs, also from models that contain it; and the module, taken from such a model if needed for its
    inputs."""
    target = work.target
    try:
        given = example_inputs.make(namespace, target, made)
    except example_inputs.CannotUseInputs as error:
        findings.append(problems.inputs_do_not_fit(job, target, error))
        return made, None
    if given is not None and given.values is not None:
        return made, given
    part = parts.find(work.ways.kind) if work.like is None else None
    if part is not None and part.inputs is not None:
        if example_inputs.fit(namespace, made, part.inputs):
            work.like = part.inputs
        elif made.source.source in ("workspace", "default"):
            made, work.like = part.made(), part.inputs
    if work.like is not None and work.like.source == "parent":
        target.inputs.append(work.like)
        arrange(target)
        given = example_inputs.make(namespace, target, made)
    return made, given


def _diagnose(
    job: Job,
    namespace: Any,
    work: _Work,
    made: construct.Made,
    parts: Parts,
    inputs: example_inputs.Inputs | None,
    guess: _Guess,
    infer: bool,
) -> tuple[Any, example_inputs.Inputs | None]:
    """The report, and its inputs: inferred ones if there are no others."""
    from fxlib.diagnosis.diagnose import diagnose

    def report(given: example_inputs.Inputs | None) -> Any:
        values, concrete = (given.values, given.concrete) if given else (None, None)
        options: dict[str, Any] = {"concrete_args": concrete, "leaf_modules": job.leaf_modules, "tracer": job.tracer}
        return alone.trace(made.module, lambda: diagnose(made.module, values, **options))

    first = report(inputs)
    if made.meta and _about_meta(first) and construct.is_small(made.module):
        # Only FX Lens has constructed it on meta.
        again = construct.make_real(namespace, made)
        made.module, made.meta = again.module, again.meta
        inputs = example_inputs.make(namespace, work.target, made) if inputs is not None else None
        first = report(inputs)
    if not infer or (inputs is not None and inputs.values is not None):
        return first, inputs

    def searching() -> Source | None:
        """The inputs from models of other files."""
        parts.look(work.target)
        part = parts.find(work.ways.kind)
        return part.inputs if part and part.inputs and example_inputs.fit(namespace, made, part.inputs) else None

    inferred = example_inputs.infer(namespace, made, inputs, first.graph, work.like, searching)
    if inferred is inputs or inferred is None:
        return first, inputs
    if inferred.source.source in _OWN_INPUTS:
        guess.inputs = inferred.source.text
        guess.sure = {_identity(render.finding(each, work.target.name)) for each in first.findings}
    return report(inferred), inferred


def _about_meta(report: Any) -> bool:
    return any(each.code == "FX199" and _DEVICE.search(each.message) for each in report.findings)


def _proposals(job: Job, finding: Any) -> list[record.Fix]:
    """Proposed fixes, which the ``verify`` job checks later."""
    from fxlib.diagnosis import fixes

    return [render.fix(each) for each in fixes.propose(finding, job.read)]


def _status(report: Any) -> Status:
    return "traced" if report.traces else "partial" if report.graph is not None else "failed"


def _reason(report: Any) -> str | None:
    if report.traces:
        return None
    loud = [each for each in report.findings if each.loud]
    return loud[0].message if loud else "torch.fx cannot trace it"


def _skipped(found: record.Target, reason: str, *findings: Finding) -> record.Target:
    return {**found, "status": "skipped", "reason": reason, "findings": findings}


def _failed(found: record.Target, findings: list[Finding]) -> record.Target:
    return {**found, "status": "failed", "reason": findings[-1]["message"], "findings": findings}


def _origin(source: Source) -> Origin:
    return record.origin(source.text, source.source, source.line, source.file)


def _called(made: construct.Made, inputs: example_inputs.Inputs | None, like: Source | None, searched: bool) -> Json:
    """How a model is constructed and called, as far as known before its trace."""
    given = inputs is not None and inputs.values is not None
    return {
        "construct": _origin(made.source), "searched": searched, "given": given,
        "inputs": _origin(inputs.source) if inputs else None, "like": like.text if like is not None else None,
    }  # fmt: skip


def _calls_again(once: Json, made: construct.Made, said: list[Source], like: Source | None) -> bool:
    """Whether a model constructed and called like this is called as it was ``once``: with the same given inputs
    (``said``), or by a model that contains it."""
    if not once["given"] or once["construct"] != _origin(made.source):
        return False
    if once["like"] != (like.text if like is not None else None):
        return False
    return once["inputs"] in [_origin(each) for each in (said if like is None else [*said, like])]


def milliseconds(start: float, end: float) -> float:
    return round((end - start) * 1000, 2)
