"""The finding for a process that did not finish its job: what happened, to which class, at which line."""

from __future__ import annotations

import signal

from fxlens import record
from fxlens.ipc import protocol
from fxlens.ipc.request import Limits, Request
from fxlens.record import Finding
from fxlens.sources.positions import span_of_line

from . import stacks
from .outcome import Outcome

_DOING = {
    "import": "being imported",
    "construct": "being constructed",
    "assume": "being constructed with assumed arguments",
    "inputs": "making its example inputs",
    "trace": "being traced",
    "verify": "checking a fix",
    "compare": "running beside its graph",
    "check": "being checked for lowering",
    "finish": "finishing",
    "export": "being exported",
    "compile": "being compiled",
    "strict": "being exported with strict=True",
    "shapes": "being exported with other sizes",
}


def explain(outcome: Outcome, request: Request) -> Finding:
    step = outcome.step
    target = step.get("target")
    who = target or "The file"
    doing = _DOING.get(step.get("step", ""), "starting")
    stopped = outcome.end in ("timeout", "overtime", "memory", "processes", "threads")
    line = stacks.line_in(outcome.stacks or outcome.output, request.path, stopped)
    at = line or step.get("line")
    span = span_of_line(request.text, request.path, at) if at else None
    code, text = _reason(outcome, request.limits, who, doing, f" at line {line}" if line else "")
    printed = stacks.last_output(outcome.output)
    related = [record.related(f"Last output: {printed}", span)] if printed else []
    return record.finding(code, "error", text, span, target=target, related=related)


def _reason(outcome: Outcome, limits: Limits, who: str, doing: str, where: str) -> tuple[str, str]:
    if outcome.end == "timeout":
        return "FX304", f"{who} was stopped after {limits.deadline:g} s while {doing}{where}"
    if outcome.end == "overtime":
        return "FX304", f"{who} was stopped while {doing}{where}: all steps of this file together took too long"
    if outcome.end == "memory":
        return "FX307", f"{who} was stopped at {limits.memory >> 20} MiB of memory while {doing}{where}"
    if outcome.end in ("processes", "threads"):
        most = f"{getattr(limits, outcome.end)} {outcome.end}"
        return "FX307", f"{who} was stopped for starting more than {most} while {doing}{where}"
    if outcome.end == "lost" or outcome.status == protocol.NO_CHANNEL_STATUS:
        why = f": {outcome.refused}" if outcome.refused else ""
        return "FX305", f"{who} lost the connection to its process while {doing}{where}{why}"
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
