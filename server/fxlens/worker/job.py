"""One job: execute the user's file, trace each of its models, send the record.

Runs in the user's interpreter: standard library, torch and fxlib.  Every step is announced before it begins, so that
the server can say where a process hung or died, and each target is sent as soon as it is done, so that a later crash
takes nothing away.
"""

from __future__ import annotations

import ast
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxlens.sources import from_tests, positions
from fxlens.sources import targets as text_targets
from fxlens.sources.paths import key

from . import construct, costs, isolation, lowering_job, model_jobs, pass_jobs, render, symbolic, tracebacks, user_file
from .verify_job import mend, verify

if TYPE_CHECKING:
    from fxlens.sources.targets import Source, Target

    from .isolation import Channel


def run(message: dict[str, Any], channel: Channel) -> None:
    """Does the job and sends ``done`` last.  ``message["kind"]`` names the job, see ``KINDS``."""
    job = Job(message, channel)
    try:
        KINDS[message["kind"]](job)
    except BaseException as error:
        # Everything that user code can raise is handled where it is called; this is ours.
        import traceback

        channel.send({"event": "failed", "message": construct.brief(error), "detail": _cut(traceback.format_exc())})
    channel.send({"event": "done"})


class Job:
    """What a job was given, and its ways to report."""

    def __init__(self, message: dict[str, Any], channel: Channel) -> None:
        self.message = message
        self.channel = channel
        self.path: str = message["path"]
        self.text: str = message["text"]
        self.deadline: float = message.get("deadline", 10.0)
        self.stack_after: float = message.get("stack_after", 0.9 * self.deadline)
        self.skip: set[str] = set(message.get("skip", ()))
        self.reads_own_device = False
        self._texts = {key(path): text for path, text in (message.get("overlays") or {}).items()}
        self._texts[key(self.path)] = self.text

    def read(self, path: str) -> str | None:
        """The text of a file as this job sees it, or None where it cannot be read."""
        known = self._texts.get(key(path))
        if known is not None:
            return known
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except (OSError, UnicodeDecodeError):
            return None

    def step(self, name: str, target: Any = None) -> None:
        """Announces what happens next.  The deadline counts from here; the stack is written shortly before it, or when
        the server says."""
        where = {"target": target.name, "line": target.line} if target else {"target": None, "line": None}
        self.channel.send({"event": "step", "step": name, **where})
        isolation.report_hang(self.channel.dump_fd, max(0.05, self.stack_after))

    def finding(self, code: str, severity: str, message: str, span: Any = None, **more: Any) -> dict[str, Any]:
        made = {"code": code, "severity": severity, "message": message, "span": span, "call_path": [], "node": None}
        return {**made, "target": None, "related": [], "fixes": [], "tags": [], "source": "trace", **more}


def _cut(text: str, most: int = 6000) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"


def trace(job: Job) -> None:
    """The record of a file: every model in it, traced."""
    started = time.perf_counter()
    known = frozenset(sys.modules)
    try:
        tree = ast.parse(job.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        job.channel.send({"event": "findings", "findings": [_syntax_finding(job, error)]})
        return
    found = text_targets.find(tree, job.text)
    text_targets.configure(found, job.message.get("config_targets") or {})
    job.reads_own_device = construct.reads_own_device(tree)
    asked = from_tests.asked_for(found, job.path)
    tests = from_tests.add(found, tree, job.path, job.message.get("folder"), job.read)
    job.step("import")
    namespace = _load(job, tree)
    imported = time.perf_counter()
    traced: list[Traced] = []
    if namespace is not None:
        models = [target for target in found if construct.is_model(namespace, target)]
        for target in models:
            target.leaf = construct.is_leaf(getattr(namespace, target.name), job.message.get("leaf_modules") or ())
        _trace_all(job, namespace, [target for target in models if target.name not in job.skip], traced)
    diagnosed = time.perf_counter()
    # What the user waits for is out; the graphs follow.
    job.channel.send({"event": "diagnosed"})
    for each in traced:
        job.step("finish")
        details = render.details(each.report, each.root)
        if job.message.get("batch"):
            symbolic.add(details["nodes"], each.report, each.inputs, job.message["batch"])
        if job.message.get("device"):
            costs.predict(details["nodes"], each.report.graph, each.root, job.message["device"])
        job.channel.send({"event": "details", "target": each.result["name"], **details})
    job.step("finish")
    files, packages = user_file.imported_files(known, job.message.get("folder"), job.path)
    end = time.perf_counter()
    timings = {"import": _ms(started, imported), "diagnosed": _ms(started, diagnosed), "total": _ms(started, end)}
    files = sorted({*files, *tests})
    job.channel.send({"event": "end", "files": files, "asked": asked, "third_party": packages, "timings": timings})


def _load(job: Job, tree: ast.Module) -> Any:
    """The executed module, or None with a finding sent that says what it raised."""
    try:
        return user_file.load(job.path, job.text, job.message.get("folder"), job.message.get("overlays") or {}, tree)
    except SyntaxError as error:
        # One without a file is of other text: this file's own has been parsed.
        own = error.filename is not None and key(error.filename) == key(job.path)
        finding = _syntax_finding(job, error) if own else _import_finding(job, tree, error)
    except BaseException as error:
        finding = _import_finding(job, tree, error)
    job.channel.send({"event": "findings", "findings": [finding]})
    return None


@dataclass(frozen=True)
class Traced:
    """A model that has a graph: its part of the record, and what the rest of it is made of."""

    result: dict[str, Any]
    report: Any
    root: Any
    inputs: construct.Inputs | None


def _trace_all(job: Job, namespace: Any, models: list[Target], traced: list[Traced]) -> None:
    """Sends each model's findings; puts those that have a graph into ``traced``."""
    failed: list[tuple[Target, dict[str, Any]]] = []
    roots: list[tuple[str, Any]] = []
    for target in models:
        result, whole = _trace_target(job, namespace, target, roots)
        if whole is not None:
            traced.append(whole)
        if result["status"] == "skipped" and result.get("findings") and not target.skip:
            failed.append((target, result))
        else:
            job.channel.send({"event": "target", "target": result})
    for target, result in failed:
        holder = _part_of(namespace, target, roots)
        if holder and result["findings"][0]["severity"] == "hint":
            result.update(findings=[], reason=f"traced as part of {holder}")
        job.channel.send({"event": "target", "target": result})


def _part_of(namespace: Any, target: Target, roots: list[tuple[str, Any]]) -> str | None:
    """The root that holds an instance of this class, as ``ResNet50 (layer1.0)``."""
    kind = getattr(namespace, target.name)
    for name, root in roots:
        for path, module in root.named_modules():
            if path and type(module) is kind:
                return f"{name} ({path})"
    return None


def _trace_target(
    job: Job, namespace: Any, target: Target, roots: list[tuple[str, Any]]
) -> tuple[dict[str, Any], Traced | None]:
    """The target's part of the record without its graph; what that is made of where it could be traced at all."""
    result = _empty_target(target)
    if target.skip:
        return {**result, "status": "skipped", "reason": "a comment says skip"}, None
    if target.leaf:
        return (
            {**result, "status": "skipped", "reason": "the project's configuration makes it a leaf module"},
            None,
        )
    started = time.perf_counter()
    _reset_torch()
    job.step("construct", target)
    try:
        made = construct.make(namespace, target)
        if made.meta and job.reads_own_device and construct.is_small(made.module):
            made = construct.make(namespace, target, real=True)
    except construct.CannotConstruct as error:
        if isinstance(error.__cause__, (RecursionError, MemoryError)):
            return _raised(job, target, result, error.__cause__, "constructing it"), None
        finding = _construct_finding(job, namespace, target, error)
        return {**result, "status": "skipped", "reason": str(error), "findings": [finding]}, None
    except BaseException as error:
        return _raised(job, target, result, error, "constructing it"), None
    result["construct"] = _source(made.source)
    roots.append((target.name, made.module))
    findings, inputs = [], None
    job.step("inputs", target)
    try:
        inputs = construct.make_inputs(namespace, target, made)
    except construct.CannotUseInputs as error:
        span = (
            positions.span_of_line(job.text, job.path, error.source.line)
            if error.source.line
            else _name_span(job, target)
        )
        message = f"The example inputs of {target.name} do not fit, so it was traced without: {error}"
        findings.append(job.finding("FX303", "warning", message, span, target=target.name))
    except BaseException as error:
        return _raised(job, target, result, error, "making its inputs"), None
    built = time.perf_counter()
    job.step("trace", target)
    try:
        report, more = _diagnose(job, target, made, inputs)
        if not findings and (inputs is None or inputs.values is None):
            inferred = construct.infer_inputs(namespace, made, inputs, report.graph)
            if inferred is not inputs:
                inputs = inferred
                report, more = _diagnose(job, target, made, inputs)
        result["inputs"] = _source(inputs.source) if inputs else None
    except BaseException as error:
        return _raised(job, target, {**result, "findings": findings}, error, "tracing it"), None
    result.update(
        status="traced" if report.graph_module is not None else "partial" if report.graph is not None else "failed",
        findings=findings + more,
        untaken=render.untaken(report.untaken),
        baked=render.baked(report.baked),
    )
    loud = [each for each in more if each["code"].startswith("FX1")]
    if result["status"] != "traced":
        result["reason"] = loud[0]["message"] if loud else "torch.fx cannot trace it"
    result["timings"] = {"build": _ms(started, built), "trace": _ms(built, time.perf_counter())}
    return result, Traced(result, report, made.module, inputs)


def _diagnose(job: Job, target: Target, made: construct.Made, inputs: construct.Inputs | None) -> tuple[Any, list]:
    from fxlib.diagnosis.diagnose import diagnose

    values = inputs.values if inputs else None
    concrete = inputs.concrete if inputs else None
    leaves = tuple(job.message.get("leaf_modules") or ())
    report = diagnose(made.module, values, concrete_args=concrete, leaf_modules=leaves)
    rendered = []
    for each in report.findings:
        data = render.finding(each, target.name)
        data["fixes"] = _proposals(job, each)
        rendered.append(data)
    return report, rendered


def _proposals(job: Job, finding: Any) -> list[dict[str, Any]]:
    """What might mend it, not checked yet: the ``verify`` job does that."""
    from fxlib.diagnosis import fixes

    return [fix.as_dict() for fix in fixes.propose(finding, job.read)]


def _reset_torch() -> None:
    """What one model's constructor may have changed for the next."""
    import torch

    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.manual_seed(0)


def _raised(job: Job, target: Target, result: dict[str, Any], error: BaseException, doing: str) -> dict[str, Any]:
    """A target whose code raised where nothing may: the finding names the class and the line."""
    span = tracebacks.of_traceback(error.__traceback__, job.path) or _name_span(job, target)
    code, severity = "FX199", "error"
    text = f"{target.name} could not be traced: {doing} raised {construct.brief(error)}"
    if isinstance(error, SystemExit):
        code, text = "FX306", f"{target.name} ended the process: {doing} called sys.exit({error.code!r})"
    elif isinstance(error, RecursionError):
        code, text = "FX310", f"{target.name} recurses without end while {doing}: {construct.brief(error)}"
    elif isinstance(error, MemoryError):
        code, text = "FX307", f"{target.name} ran out of memory while {doing}"
    finding = job.finding(code, severity, text, span, target=target.name)
    findings = [*result.get("findings", []), finding]
    return {**result, "status": "failed", "reason": text, "findings": findings}


def _construct_finding(job: Job, namespace: Any, target: Target, error: construct.CannotConstruct) -> dict[str, Any]:
    if error.source is not None and error.source.line:
        span = positions.span_of_line(job.text, job.path, error.source.line)
        return job.finding(
            "FX302", "warning", f"{target.name} cannot be constructed: {error}", span, target=target.name
        )
    arguments = ", ".join(construct.required_arguments(getattr(namespace, target.name))) or "…"
    message = (
        f"{target.name} was not traced: {error}. Say how to construct it with a comment above the class: "
        f"# fxlens: {target.name}({arguments}) <- torch.randn(…)"
    )
    return job.finding("FX302", "hint", message, _name_span(job, target), target=target.name)


def _import_finding(job: Job, tree: ast.Module, error: BaseException) -> dict[str, Any]:
    span = tracebacks.of_traceback(error.__traceback__, job.path)
    if span and isinstance(error, (ImportError, SyntaxError)):
        span = tracebacks.of_import(tree, job.path, span["line"]) or span
    if isinstance(error, SystemExit):
        message = f"The file ends the process while it is imported: sys.exit({error.code!r})"
        return job.finding("FX306", "error", message, span)
    if isinstance(error, NotImplementedError) and "wrap must be called at the top level" in str(error):
        says = {"message": f"torch.fx says: {construct.brief(error)}", "span": span, "kind": "torch"}
        message = "torch.fx.wrap not at the top level of a module: the file cannot be imported, so nothing was traced"
        return job.finding("FX185", "error", message, span, related=[says])
    if isinstance(error, RecursionError):
        return job.finding(
            "FX310", "error", f"The file recurses without end while it is imported: {construct.brief(error)}", span
        )
    if isinstance(error, MemoryError):
        return job.finding("FX307", "error", "The file ran out of memory while it was imported", span)
    related = []
    if isinstance(error, SyntaxError) and error.filename:
        place = {
            "file": error.filename,
            "line": error.lineno or 1,
            "column": 0,
            "end_line": error.lineno or 1,
            "end_column": 0,
        }
        related.append({"message": f"SyntaxError: {error.msg}", "span": place, "kind": "note"})
    message = f"The file cannot be imported, so nothing in it was traced: {construct.brief(error)}"
    other = tracebacks.elsewhere(error.__traceback__, job.path)
    if other is not None:
        file, line = other
        text = f"Raised by line {line} of {os.path.basename(file)}"
        place = {"file": file, "line": line, "column": 0, "end_line": line, "end_column": 0}
        related.append({"message": text, "span": place, "kind": "note"})
        if span is None:
            message += f". {text}, which the package of this file imports"
    return job.finding("FX301", "error", message, span, related=related)


def _syntax_finding(job: Job, error: BaseException) -> dict[str, Any]:
    line = getattr(error, "lineno", None) or 1
    lines = positions.lines_of(job.text)
    content = lines[min(line, len(lines)) - 1]
    start = _bytes(content[: max((getattr(error, "offset", None) or 1) - 1, 0)])
    span = {"file": job.path, "line": line, "column": start, "end_line": line, "end_column": _bytes(content)}
    return job.finding("FX308", "error", f"Python cannot parse this: {getattr(error, 'msg', None) or error}", span)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _name_span(job: Job, target: Target) -> dict[str, Any]:
    return {
        "file": job.path,
        "line": target.line,
        "column": target.column,
        "end_line": target.end_line,
        "end_column": target.end_column,
    }


def _empty_target(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "line": target.line,
        "column": target.column,
        "end_line": target.end_line,
        "end_column": target.end_column,
        "status": "failed",
        "reason": None,
        "construct": None,
        "inputs": None,
        "nodes": [],
        "modules": {},
        "code": "",
        "code_lines": {},
        "findings": [],
        "untaken": [],
        "baked": [],
        "timings": {},
    }


def _source(source: Source) -> dict[str, Any]:
    made = {"text": source.text, "source": source.source, "line": source.line}
    return {**made, "file": source.file} if source.file else made


def _ms(start: float, end: float) -> float:
    return round((end - start) * 1000, 2)


KINDS = {
    "trace": trace, "verify": verify, "mend": mend, "lowering": lowering_job.check,
    **model_jobs.KINDS, **pass_jobs.KINDS,
}  # fmt: skip
