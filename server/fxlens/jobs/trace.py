"""The record of a file: every model in it, traced.

The findings of all models are sent first, then the graphs, since the user waits for findings. If a process hangs or
dies, the current model gets the finding, and the others are traced in a new process, or at least named.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, cast

from fxlens import record
from fxlens.host.failures import explain
from fxlens.host.outcome import Outcome, WorkerUnavailable
from fxlens.ipc import protocol
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.record import Finding, Graph, Record, Target
from fxlens.sources import known as known_of
from fxlens.sources import parsing, positions, targets

if TYPE_CHECKING:
    from types import ModuleType

    from fxlens.host.pool import Pool
    from fxlens.worker import reading, unchanged, user_file
    from fxlens.worker.job import Job

_MORE_PROCESSES = 6  # than the text has classes, each of which may end one
_MOST_STOPPED = 6
"""So many classes may take all of their time; those that are left would make a check wait for hours."""
_PART_SECONDS = 2.0
"""Seconds after which the models diagnosed so far are shown; the interval doubles each time, so that hundreds of models
do not cause hundreds of updates."""
_STACK_AFTER = 0.9  # of the deadline, in clock time
_STACK_LATE = 10.0  # even on a busy machine


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``findings`` of the file, a ``target`` for each model, ``diagnosed``, a ``graph`` for each that has one,
    ``end``.  For a kept file also ``unfit`` if it has to be executed again, ``same`` for a model that an edit has not
    changed, ``unknown`` if that is unclear for any model, ``lines`` if lines have moved; and ``learnt`` last, for a
    rehearsal.  If the file is ``contested``, since others have executed it, only ``taken`` where they may hold what it
    needs."""
    from fxlens.worker import isolation, kept, models, pages, read_files, user_file
    from fxlib.diagnosis.fixes.loaded import Loaded

    started = time.perf_counter()
    known = kept.modules_before() if kept.is_there() else Loaded()
    replaced = user_file.Replaced()
    opened = _opened(job, replaced)
    if opened is None:
        return
    read, namespace = opened
    imported = time.perf_counter()
    traced, rehearsal = ([], None) if namespace is None else _judged(job, read, namespace, replaced)
    diagnosed = time.perf_counter()
    job.send("diagnosed")
    if job.message.get("rehearse"):
        pages.note()
    isolation.step_back()
    for model in traced:
        job.step("finish")
        _send_graph(job, model)
    job.step("finish")
    files, packages = user_file.imported_files(known)
    timings = {
        "import": models.milliseconds(started, imported),
        "diagnosed": models.milliseconds(started, diagnosed),
        "total": models.milliseconds(started, time.perf_counter()),
    }
    files = sorted({*files, *read.found.tests})
    own = {"looked_at": read_files.looked_at(), "written": read_files.written(), "variables": read_files.variables()}
    job.send("end", files=files, asked=read.found.asked, **own, third_party=packages, timings=timings)
    if rehearsal is not None:
        job.send("learnt", **rehearsal.learnt(known))


def _opened(job: Job, replaced: user_file.Replaced) -> tuple[reading.Reading, ModuleType | None] | None:
    """What the text says, and the executed module, which is missing if that failed.  None if there is nothing to judge,
    or the file has to be executed again: that is sent."""
    from fxlens.worker import kept, problems, reading

    namespace: ModuleType | None
    if grafted := kept.grafted(job) if kept.is_there() else None:
        read, namespace = grafted
    else:
        try:
            tree = ast.parse(job.text)
        except parsing.ERRORS as error:
            job.send("findings", findings=[parsing.syntax_finding(error, job.text, job.path)])
            return None
        if not targets.may_have_models(tree, job.text) and not job.config_targets:
            job.send("diagnosed")
            timings = {"import": 0.0, "diagnosed": 0.0, "total": 0.0}
            job.send("end", **{**_NO_END, "timings": timings})
            return None
        read = reading.whole(job, tree)
        job.step("import")
        try:
            namespace = kept.renewed(job, tree) if kept.is_there() else _import(job, tree, replaced)
        except _Taken:
            job.send("taken")
            return None
        if namespace is None and kept.is_there():
            job.send("unfit")
            return None
    known_of.add(read.found.targets, job.known)
    if namespace is not None and job.tracer is not None:
        try:
            job.tracer.load()
        except BaseException as error:
            job.send("findings", findings=[problems.unusable_tracer(job, error)])
            job.tracer = None
    return read, namespace


def _judged(
    job: Job, read: reading.Reading, namespace: ModuleType, replaced: user_file.Replaced
) -> tuple[list[Any], unchanged.Rehearsal | None]:
    """The traced models, and the rehearsal if it tells what later edits leave as it is."""
    from fxlens.worker import (
        construct,
        definitions,
        kept,
        models,
        outside,
        placeholders,
        problems,
        unchanged,
        user_file,
    )

    found = read.found.targets
    skip = set(job.message["skip"])
    wanted = [each for each in found if construct.is_model(namespace, each)]
    if wanted and replaced:
        job.send("findings", findings=[problems.replaced(job, read.tree, replaced)])
    if replaced.raised is not None:
        for each in definitions.lost(read.tree, namespace, found):
            about = record.target(each.name, problems.name_span(job, each))
            job.send("target", target={**about, "status": "skipped", "reason": "the statement that defines it raises"})
    for each in wanted:
        each.leaf = construct.is_leaf(namespace, each, job.leaf_modules)
    left = [each for each in wanted if each.name not in skip]
    if reason := job.message.get("unjudged"):
        for each in left:
            if not construct.left_out(namespace, each):
                job.send("target", target=problems.not_judged(job, each, reason))
        return [], None
    before = _before(job, read, namespace) if kept.is_there() and not skip else unchanged.Nothing()
    with before.watching():
        traced = models.trace_all(job, namespace, left, read.own_device, before)
    late = {name: at for name, at in placeholders.replaced().items() if name not in replaced.modules}
    former = {name: at for name, at in placeholders.former().items() if name not in replaced.former}
    if late or former:
        more = user_file.Replaced(late, former=former)
        job.send("findings", findings=[problems.replaced(job, read.tree, more)])
    if wanted and outside.notes:
        job.send("findings", findings=problems.from_outside(job, found))
    # A model that is not traced again would not import what a placeholder replaced, nor fetch anything.
    if not isinstance(before, unchanged.Rehearsal) or late or former or outside.notes:
        return traced, None
    return traced, before


def _before(job: Job, read: reading.Reading, namespace: ModuleType) -> unchanged.Nothing:
    from fxlens.worker import unchanged

    if job.message.get("rehearse"):
        return unchanged.Rehearsal(job.path, job.text, read.tree, namespace)
    earlier = unchanged.earlier(job.path, job.message.get("learnt"), job.text, read.parts)
    if earlier is None:
        job.send("unknown")
        return unchanged.Nothing()
    if earlier.stretches:
        job.send("lines", stretches=earlier.stretches)
    return earlier


class _Taken(Exception):
    """Another process that has executed the file may hold a port, a lock or the like."""


def _import(job: Job, tree: ast.Module, replaced: user_file.Replaced) -> Any:
    """The executed module, or None after sending a finding with its error. Raises _Taken."""
    from fxlens.worker import problems, user_file
    from fxlens.worker.errors import of_a_resource

    try:
        namespace = user_file.load(job.path, job.text, job.folder, job.overlays, tree, replaced)
        if replaced.raised is not None:
            if job.message.get("contested") and of_a_resource(replaced.raised):
                raise _Taken
            job.send("findings", findings=[problems.not_imported(job, tree, replaced.raised, partly=True)])
            job.incomplete = True
        return namespace
    except SyntaxError as error:
        if problems.is_of_file(error, job.path):
            finding = parsing.syntax_finding(error, job.text, job.path)
        else:
            finding = problems.not_imported(job, tree, error)
    except _Taken:
        raise
    except BaseException as error:
        if job.message.get("contested") and of_a_resource(error):
            raise _Taken from None
        finding = problems.not_imported(job, tree, error)
        if replaced and isinstance(error, (AttributeError, TypeError, ImportError)):
            # The error may come from a placeholder that lacks something.
            finding = record.graded(finding, "warning")
        if not (targets.looks_like_models(tree) or job.config_targets or targets.written(job.text)):
            # setup.py, or a documentation's configuration.
            finding = record.graded(finding, "info")
    job.send("findings", findings=[finding])
    return None


def _send_graph(job: Job, model: Any) -> None:
    from fxlens.worker import problems

    graph = record.NO_GRAPH
    try:
        graph = _graph(job, model)
        job.send("graph", target=model.name, graph=graph, doubtful=model.report.doubtful)
        return
    except protocol.TooLarge as error:
        reason = f"its graph has {len(graph['nodes']):,} nodes: {error}"
    except BaseException as error:  # reading the model runs code of the user's, too
        finding = problems.raised(job, model.target, error, "drawing its graph")
        job.send("findings", findings=[finding])
        reason = finding["message"]
    job.send("graph", target=model.name, graph=record.NO_GRAPH, reason=reason)


def _graph(job: Job, model: Any) -> Graph:
    from fxlens.worker import alone, costs, example_inputs, render, symbolic

    with alone.where(alone.needs(model.root)):
        graph = render.graph(model.report, model.root)
        nodes = graph["nodes"]
        batch = job.message["batch"]
        if batch or model.recorded or model.shapes:
            values = model.inputs and model.inputs.values
            given = None if values is None else example_inputs.in_order(values)
            recorded = [*map(example_inputs.in_order, model.recorded)]
            nodes = symbolic.add(nodes, model.report, given, batch, recorded, model.shapes)
    if device := job.message["device"]:
        nodes = costs.predict(nodes, model.report.graph, model.root, device)
    return {**graph, "nodes": nodes}


# On the server


async def run(
    pool: Pool,
    request: Request,
    on_findings: Callable[[Record], None] | None = None,
    on_first: Callable[[Record], None] | None = None,
    on_judged: Callable[[Callable[[], Record]], None] | None = None,
) -> Record:
    """The record of the file.  Never raises because of user code.

    ``on_findings`` gets the record without graphs as soon as all models are diagnosed.  ``on_first`` gets it when the
    models up to the one at the cursor are diagnosed, and, for a slow file, from time to time afterwards.  ``on_judged``
    is called for each diagnosed model, with a function that gives the record so far.
    """
    began, shown = time.monotonic(), _PART_SECONDS
    gathered = _Gathered(request)
    stack_after, stopped, unjudged = _STACK_AFTER, 0, ""
    for left in range(targets.class_count(request.text) + _MORE_PROCESSES, -1, -1):
        if stopped == _MOST_STOPPED or not left:
            unjudged = f"{stopped} others of this file did not end in time" if stopped else "its process ends each time"
        message = request.message(
            "trace",
            cursor=request.cursor,
            batch=request.batch,
            device=request.device,
            stack_after=stack_after * request.limits.deadline,
            skip=list(gathered.targets),
            unjudged=unjudged,
        )

        def collect(event: Json) -> None:
            nonlocal shown
            gathered.take(event)
            if event.get("event") == "diagnosed" and on_findings is not None:
                on_findings(gathered.record(pool.hello))
            elif event.get("event") == "target":
                passed = time.monotonic() - began
                if on_first is not None and (event["target"]["name"] == request.cursor or passed > shown):
                    shown = max(shown, 2 * passed)
                    on_first(gathered.record(pool.hello))
                if on_judged is not None:
                    on_judged(lambda: gathered.record(pool.hello))

        try:
            outcome = await pool.run(message, request.limits, collect)
        except WorkerUnavailable as error:
            gathered.findings.append(record.finding("FX309", "error", f"Nothing can be traced: {error}"))
            break
        gathered.keep_output(outcome)
        if outcome.end == "done":
            break
        if outcome.died_of_its_stack and stack_after == _STACK_AFTER:
            stack_after = _STACK_LATE
            gathered.drop_incomplete()
            continue
        stopped += outcome.end in ("timeout", "overtime")
        if not gathered.lose(outcome) or unjudged:
            break
    return gathered.record(pool.hello)


class _End(TypedDict):
    """The data of a file after its job."""

    files: list[str]
    looked_at: dict[str, str | None]
    written: list[str]
    asked: list[str]
    variables: list[str]
    third_party: list[str]
    timings: dict[str, float]


_NO_END: _End = {
    "files": [], "looked_at": {}, "written": [], "asked": [], "variables": [], "third_party": [], "timings": {},
}  # fmt: skip


class _Gathered:
    """Collects the events of one or more processes about a file."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.targets: dict[str, Target] = {}
        self.findings: list[Finding] = []
        self._complete: set[str] = set()
        self._graphs: dict[str, Graph] = {}
        self._end = _NO_END
        self._output = ""
        self._failure: str | None = None

    def take(self, event: Json) -> None:
        kind = event.get("event")
        if kind == "target":
            target: Target = event["target"]
            # A job that is repeated in a new worker sends everything again.
            self.targets[target["name"]] = target
            if target["status"] not in ("traced", "partial"):
                self._complete.add(target["name"])
        elif kind == "graph":
            name = event["target"]
            self._graphs[name] = event["graph"]
            self._complete.add(name)
            self.targets[name] = {**self.targets[name], "doubtful": event.get("doubtful", False)}
            if "reason" in event:
                self.targets[name] = {**self.targets[name], "reason": event["reason"]}
        elif kind == "findings":
            self.findings += [each for each in event["findings"] if each not in self.findings]
        elif kind == "end":
            self._end = cast(_End, {name: event[name] for name in _NO_END})
        elif kind == "failed":
            self.findings.append(self._failed(event["message"], event.get("line")))
            self._failure = event["detail"]

    def _failed(self, message: str, line: object) -> Finding:
        if not isinstance(line, int):
            return record.finding("FX199", "error", f"FX Lens itself failed on this file: {message}")
        said = f"This code replaces something that FX Lens calls, such as a built-in function, and raised {message}"
        return record.finding("FX199", "error", said, record.span(self._request.path, line))

    def keep_output(self, outcome: Outcome) -> None:
        stacks = "" if outcome.end == "done" else outcome.stacks
        self._output = "\n".join(each for each in (outcome.output, stacks) if each)

    def drop_incomplete(self) -> None:
        """A model whose graph did not arrive is traced again."""
        self.targets = {name: each for name, each in self.targets.items() if name in self._complete}

    def lose(self, outcome: Outcome) -> bool:
        """Records why the process ended; returns whether a model caused it, so that the others can continue."""
        found = explain(outcome, self._request)
        if outcome.step.get("assumed"):
            # A search that hangs or crashes is not the code's fault.
            found = record.graded(found, "hint")
        name = outcome.step.get("target")
        if name is None:
            self.findings.append(found)
            return False
        line = outcome.step.get("line") or 1
        span = positions.span_of_line(self._request.text, self._request.path, line)
        self.drop_incomplete()
        self.targets[name] = {**record.target(name, span, "failed", found["message"]), "findings": [found]}
        self._complete.add(name)
        return True

    def record(self, hello: Json) -> Record:
        """The record so far; ``hello`` describes the worker's interpreter."""
        graphs = self._graphs
        known: list[Target] = [{**each, **graphs.get(each["name"], record.NO_GRAPH)} for each in self.targets.values()]
        return {
            **record.empty_record(self._request.path),
            **self._end,
            "python": hello.get("python"),
            "torch": hello.get("torch"),
            "executable": hello.get("executable"),
            "targets": sorted(known, key=lambda target: target["line"]),
            "findings": list(self.findings),
            "output": self._output,
            "failure": self._failure,
        }
