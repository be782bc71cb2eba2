"""The job that checks fixes: each is applied to a copy of the text, traced again and compared with eager.

Runs in the user's interpreter: standard library, torch and fxlib.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fxlens.config.selection import Selection, silenced
from fxlens.sources.targets import ignored

from . import user_file

if TYPE_CHECKING:
    from .job import Job


def verify(job: Job) -> None:
    """Sends ``{"event": "fixes", "number", "fixes"}`` for each finding of the message, as soon as it is settled.  What
    there is no time for has no such event, or fixes that say ``late``."""
    from fxlib.diagnosis.fixes.verify import Checker

    load = _loader(job)
    until = time.monotonic() + 2 * job.deadline
    # Small models first: a large one may use up the time.
    for target in sorted(job.message["targets"], key=lambda target: target["size"]):
        checker = Checker(
            job.path,
            target["construct"],
            target["inputs"],
            read=job.read,
            load=load,
            leaf_modules=tuple(job.message.get("leaf_modules") or ()),
        )
        for number, finding, recipes in target["findings"]:
            if time.monotonic() > until or checker.left < 0:
                break
            job.step("verify", SimpleNamespace(name=target["name"], line=target["line"]))
            job.channel.send({"event": "checking", "number": number})
            settled = checker.settle(as_object(finding), recipes)
            job.channel.send({"event": "fixes", "number": number, "fixes": [fix.as_dict() for fix in settled]})


def mend(job: Job) -> None:
    """Applies every fix that proves itself, of the findings that are shown; sends
    ``{"event": "mended", "texts": {path: text}, "applied": [title]}``."""
    from fxlib.diagnosis.fixes.mend import fix_all

    # One step for all of it: the deadline is that of the job.
    job.step("verify")
    targets = [(target["construct"], target["inputs"]) for target in job.message["targets"]]
    leaves = tuple(job.message.get("leaf_modules") or ())
    chosen = Selection(**(job.message.get("selection") or {}))

    def wanted(finding: Any, read: Any) -> bool:
        span = finding.span
        if span is None or not chosen.shows(finding.code) or chosen.grade(finding.code, finding.severity) == "off":
            return False
        return not silenced(finding.code, span.line, span.end_line, ignored(read(span.file) or ""))

    mended = fix_all(job.path, targets, read=job.read, load=_loader(job), leaf_modules=leaves, wanted=wanted)
    job.channel.send({"event": "mended", "texts": mended.texts, "applied": [fix.title for fix in mended.applied]})


def _loader(job: Job) -> Any:
    """``load(path, texts)`` for the checker: the file executed with these texts over what the job was given."""
    overlays = job.message.get("overlays") or {}

    def load(path: str, texts: dict[str, str]) -> Any:
        merged = {**overlays, job.path: job.text, **texts}
        return user_file.load(path, merged.pop(path, None) or job.read(path) or "", job.message.get("folder"), merged)

    return load


def as_object(finding: dict[str, Any]) -> SimpleNamespace:
    """A finding of the record with the attributes of the report's."""
    span = finding["span"]
    return SimpleNamespace(
        code=finding["code"],
        severity=finding["severity"],
        message=finding["message"],
        span=SimpleNamespace(**span) if span else None,
        call_path=tuple(SimpleNamespace(**each) for each in finding.get("call_path") or ()),
        related=tuple(
            SimpleNamespace(
                message=each["message"], span=each["span"] and SimpleNamespace(**each["span"]), kind=each["kind"]
            )
            for each in finding["related"]
        ),
        node=finding.get("node"),
        data=finding.get("data") or {},
    )
