"""Applies the fixes of a file one after the other, each checked on the text that the ones before it left."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.config.selection import Selection, silenced
from fxlens.host.outcome import WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.record import Record, assumed
from fxlens.sources.paths import is_within
from fxlens.sources.targets import ignored

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job

log = logging.getLogger(__name__)

_LEAST_SECONDS = 60.0


# In the user's interpreter


def work(job: Job) -> None:
    """Events ``fixed``: the texts by path before and after, and all fixes that were applied so far. A model whose fixes
    take too long loses those of no other."""
    from fxlens.jobs.verify import checker_of
    from fxlens.worker import scope, user_file
    from fxlib.diagnosis.fixes.fix_all import FixedFiles, Target, fix_all

    targets = [Target(**target) for target in job.message["targets"]]
    chosen = Selection(**job.message["selection"])
    within = job.message["within"]
    read: dict[str, str | None] = {}

    def wanted(finding: Any, text_of: Any) -> bool:
        span = finding.span
        if span is None or not (within is None or is_within(span.file, within)):
            return False
        if not chosen.shows(finding.code) or chosen.grade(finding.code, finding.severity) == "off":
            return False
        return not silenced(finding.code, span.line, span.end_line, ignored(text_of(span.file) or ""))

    def first_read(path: str) -> str | None:
        if path not in read:
            read[path] = job.read(path)
        return read[path]

    load, leaves = user_file.loader(job), job.leaf_modules

    def send(fixed: FixedFiles) -> None:
        before = {path: read.get(path) or "" for path in fixed.texts}
        applied = [{"title": fix.title, "files": sorted({edit.file for edit in fix.edits})} for fix in fixed.applied]
        job.send("fixed", before=before, texts=fixed.texts, applied=applied)

    fix_all(
        job.path,
        targets,
        read=first_read,
        load=load,
        leaf_modules=leaves,
        names=scope.names(),
        wanted=wanted,
        checker=checker_of(job.message["capture"]),
        on_target=lambda target: job.step("verify"),
        on_fixed=send,
    )


# On the server


@dataclass(frozen=True)
class Fixed:
    """The texts after all fixes that hold, by path, those that the fixes were made for, and the fixes."""

    texts: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    applied: Sequence[Applied] = ()


class Applied(TypedDict):
    """A fix that was applied, and the files that it changed."""

    title: str
    files: list[str]


async def run(
    pool: Pool,
    request: Request,
    record: Record,
    chosen: Selection,
    within: Sequence[str] | None = None,
    capture: str = "fx",
) -> Fixed:
    """What the fixes that hold for a capture make of the file and of those that it uses. Findings that ``chosen`` or a
    comment leaves out keep their problems, and so do those in files outside of ``within``, the files and folders that
    may be changed where it is given."""
    targets = []
    for target in record["targets"]:
        if target["construct"] and (capture != "fx" or any(each["fixes"] for each in target["findings"])):
            inputs = target["inputs"]["text"] if target["inputs"] else None
            made = target["construct"]["text"]
            targets.append({"construct": made, "inputs": inputs, "assumed": assumed(target)})
    fixed = Fixed()
    if not targets:
        return fixed

    def collect(event: Json) -> None:
        nonlocal fixed
        if event.get("event") == "fixed":
            fixed = Fixed(event["texts"], event["before"], event["applied"])
        elif event.get("event") == "failed":
            log.warning("fixing all of %s failed: %s", request.path, event["detail"])

    limits = replace(request.limits, deadline=max(request.limits.deadline, _LEAST_SECONDS))
    with contextlib.suppress(WorkerUnavailable):
        message = request.message("fix_all", targets=targets, selection=asdict(chosen), within=within, capture=capture)
        await pool.run(message, limits, collect, captures=capture != "fx")
    return fixed
