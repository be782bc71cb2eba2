"""One file's record, whatever its code does: runs jobs until every model is traced or given up.

The language server and the command line both come here.
"""

from __future__ import annotations

import ast
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fxlens.ipc import protocol
from fxlens.sources import positions

from . import stacks
from .outcome import Limits, Outcome, WorkerUnavailable
from .pool import Pool

_MAX_RUNS = 6
_STACK_AFTER = 0.9  # of the deadline, by the clock
_STACK_LATE = 10.0  # when no busy machine is excused any more

Record = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What to trace: a file's text, the other texts that are open, and the folder it belongs to."""

    path: str
    text: str
    folder: str | None = None
    overlays: dict[str, str] = field(default_factory=dict)
    config_targets: dict[str, str] = field(default_factory=dict)
    leaf_modules: tuple[str, ...] = ()
    batch: str = ""
    """The name of the batch dimension in shapes; empty: sizes only."""
    device: str = ""
    """The device that times are predicted for; empty: none."""
    limits: Limits = field(default_factory=Limits)


async def trace(pool: Pool, request: Request, on_findings: Callable[[Record], None] | None = None) -> Record:
    """The record of the file (docs/architecture.md).  Never raises for what user code does.

    ``on_findings`` gets the record as soon as all models are diagnosed; their graphs are added later.

    When a process hangs or dies, the class at work gets the finding and the others are traced in a new process, a
    few times.
    """
    record = empty_record(request.path)
    skip: list[str] = []
    stack_after = _STACK_AFTER
    for _ in range(_MAX_RUNS):
        message = {
            "kind": "trace",
            "path": request.path,
            "text": request.text,
            "folder": request.folder,
            "overlays": request.overlays,
            "config_targets": request.config_targets,
            "leaf_modules": list(request.leaf_modules),
            "batch": request.batch,
            "device": request.device,
            "deadline": request.limits.deadline,
            "stack_after": stack_after * request.limits.deadline,
            "skip": [*skip, *(target["name"] for target in record["targets"])],
        }

        def collect(event: dict[str, Any]) -> None:
            _collect(record, event)
            if event.get("event") == "diagnosed" and on_findings is not None:
                on_findings(record)

        try:
            outcome = await pool.run(message, request.limits, collect)
        except WorkerUnavailable as error:
            record["findings"].append(finding("FX309", "error", f"Nothing can be traced: {error}"))
            break
        dumped = "" if outcome.end == "done" else outcome.stacks
        record["output"] = "\n".join(each for each in (outcome.output, dumped) if each)
        if outcome.end == "done":
            break
        if outcome.died_of_its_stack and stack_after == _STACK_AFTER:
            stack_after = _STACK_LATE
            record["targets"] = [each for each in record["targets"] if each["name"] in skip or "whole" in each]
            continue
        found = explain(outcome, request)
        at = outcome.step.get("target")
        if at is None:
            record["findings"].append(found)
            break
        skip.append(at)
        kept = [each for each in record["targets"] if each["name"] in skip or "whole" in each]
        record["targets"] = [each for each in kept if each["name"] != at]
        record["targets"].append(_lost_target(at, outcome.step, found, request))
    for target in record["targets"]:
        target.pop("whole", None)
    record["targets"].sort(key=lambda target: target["line"])
    hello = pool.hello
    record["python"], record["torch"] = hello.get("python"), hello.get("torch")
    record["executable"] = hello.get("executable")
    return record


def empty_record(path: str) -> Record:
    return {
        "version": 1,
        "path": path,
        "python": None,
        "torch": None,
        "executable": None,
        "targets": [],
        "findings": [],
        "output": "",
        "files": [],
        "asked": [],
        "third_party": [],
        "timings": {},
    }


def finding(code: str, severity: str, message: str, span: Any = None, target: str | None = None) -> dict[str, Any]:
    """A finding that the server itself makes."""
    return {
        "code": code,
        "severity": severity,
        "message": message,
        "span": span,
        "call_path": [],
        "node": None,
        "target": target,
        "related": [],
        "fixes": [],
        "tags": [],
        "source": "trace",
    }


def syntax_problem(text: str, path: str) -> dict[str, Any] | None:
    """FX308 where this Python cannot parse the text; it needs no worker."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        lines = positions.lines_of(text)
        content = lines[min(line, len(lines)) - 1]
        start = max((getattr(error, "offset", None) or 1) - 1, 0)
        first = len(content[:start].encode("utf-8", "surrogatepass"))
        last = len(content.encode("utf-8", "surrogatepass"))
        if first >= last:
            first = len(content) - len(content.lstrip())
        span = {"file": path, "line": line, "column": first, "end_line": line, "end_column": last}
        return finding("FX308", "error", f"Python cannot parse this: {getattr(error, 'msg', None) or error}", span)
    return None


def findings(record: Record) -> list[dict[str, Any]]:
    """All findings of a record, the file's first; what several targets share is there once."""
    return [group[0] for group in _groups(record)]


def same(record: Record) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of a finding that is shown and one that is not, since it is the same met by way of another model."""
    return [(group[0], other) for group in _groups(record) for other in group[1:]]


def _groups(record: Record) -> list[list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    own = [each for target in record["targets"] for each in (*target["findings"], *target.get("lowering", ()))]
    for each in [*record["findings"], *own]:
        span = each["span"]
        mark = (each["code"], each["message"] if span is None else None, tuple(span.values()) if span else None)
        found.setdefault(mark, []).append(each)
    return list(found.values())


def explain(outcome: Outcome, request: Request) -> dict[str, Any]:
    """The finding for a process that did not finish: what happened, to which class, at which line."""
    step = outcome.step
    target = step.get("target")
    who = target or "The file"
    doing = _DOING.get(step.get("step", ""), "starting")
    said = outcome.stacks or outcome.output
    line = stacks.line_in(said, request.path, outcome.end in ("timeout", "memory", "processes"))
    span = positions.span_of_line(request.text, request.path, line) if line else _class_span(request, step.get("line"))
    where = f" at line {line}" if line else ""
    code, text = _reason(outcome, request.limits, who, doing, where)
    made = finding(code, "error", text, span, target)
    printed = stacks.last_output(outcome.output)
    if printed:
        made["related"].append({"message": f"Last output: {printed}", "span": span, "kind": "note"})
    return made


_DOING = {
    "import": "being imported",
    "construct": "being constructed",
    "inputs": "making its example inputs",
    "trace": "being traced",
    "verify": "checking a fix",
    "check": "being judged for lowering",
    "finish": "finishing",
}


def _reason(outcome: Outcome, limits: Limits, who: str, doing: str, where: str) -> tuple[str, str]:
    if outcome.end == "timeout":
        return "FX304", f"{who} was stopped after {limits.deadline:g} s while {doing}{where}"
    if outcome.end == "memory":
        return "FX307", f"{who} was stopped at {limits.memory >> 20} MiB of memory while {doing}{where}"
    if outcome.end == "processes":
        return "FX307", f"{who} was stopped with more than {limits.processes} processes while {doing}{where}"
    if outcome.end == "lost" or outcome.status == protocol.NO_CHANNEL_STATUS:
        return "FX305", f"{who} broke the connection to its process while {doing}{where}"
    status = outcome.status
    if status is not None and status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        said = outcome.stacks or outcome.output
        if "Stack overflow" in said or "Cannot recover from stack overflow" in said:
            return "FX310", f"{who} overflowed the stack ({name}) while {doing}{where}"
        return "FX305", f"{who} crashed the interpreter ({name}) while {doing}{where}"
    return "FX306", f"{who} ended the process with exit status {status} while {doing}{where}"


def _class_span(request: Request, line: int | None) -> dict[str, Any] | None:
    return positions.span_of_line(request.text, request.path, line) if line else None


def _collect(record: Record, event: dict[str, Any]) -> None:
    kind = event.get("event")
    if kind == "target":
        target = event["target"]
        if target["status"] not in ("traced", "partial"):
            target["whole"] = True
        # A job that is done again in a new worker says everything again.
        record["targets"] = [each for each in record["targets"] if each["name"] != target["name"]] + [target]
    elif kind == "details":
        for target in record["targets"]:
            if target["name"] == event["target"]:
                target.update({name: event[name] for name in ("nodes", "modules", "code", "code_lines")}, whole=True)
    elif kind == "findings":
        record["findings"] += [each for each in event["findings"] if each not in record["findings"]]
    elif kind == "end":
        record["files"], record["third_party"] = event["files"], event["third_party"]
        record["asked"] = event["asked"]
        record["timings"] = event["timings"]
    elif kind == "failed":
        record["findings"].append(finding("FX199", "error", f"FX Lens failed on this file: {event['message']}"))
        record["failure"] = event["detail"]


def _lost_target(name: str, step: dict[str, Any], found: dict[str, Any], request: Request) -> dict[str, Any]:
    line = step.get("line") or 1
    span = positions.span_of_line(request.text, request.path, line)
    return {
        "name": name,
        "line": line,
        "column": span["column"],
        "end_line": line,
        "end_column": span["end_column"],
        "status": "failed",
        "reason": found["message"],
        "construct": None,
        "inputs": None,
        "nodes": [],
        "modules": {},
        "code": "",
        "code_lines": {},
        "findings": [found],
        "untaken": [],
        "baked": [],
        "timings": {},
    }
