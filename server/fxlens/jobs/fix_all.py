"""Applies the fixes of a file one after the other, each checked on the text after the earlier ones."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

from fxlens.config.selection import Selection, silenced
from fxlens.host.outcome import WorkerUnavailable
from fxlens.ipc.protocol import Json
from fxlens.ipc.request import Request
from fxlens.jobs.verify import models_of
from fxlens.overlays import groups
from fxlens.record import Finding, Record
from fxlens.record import Fix as FixOfRecord
from fxlens.sources.paths import is_within
from fxlens.sources.positions import lines_of
from fxlens.sources.targets import ignored

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job
    from fxlib.diagnosis.fixes.fix import Fix

log = logging.getLogger(__name__)

_LEAST_SECONDS = 60.0
_MOST_PROCESSES = 6


# In the user's interpreter


def work(job: Job) -> None:
    """Events: ``fixing`` with the number of a target before it is processed; ``fixed`` with the texts by path before
    and after, and all fixes that were applied so far."""
    from fxlens.jobs.verify import as_object, checker_of
    from fxlens.worker import alone, scope, user_file
    from fxlens.worker.keeping import keeping_files
    from fxlib.diagnosis.fixes.fix_all import FixedFiles, fix_all
    from fxlib.diagnosis.fixes.verdict import Target

    targets = [Target(**target) for target in job.message["targets"]]
    chosen = Selection(**job.message["selection"])
    within = job.message["within"]
    read: dict[str, str | None] = {}
    parts = _Parts(job.path, job.message["parts"])

    def wanted(finding: Any, text_of: Any) -> bool:
        span = finding.span
        if span is None or not (within is None or is_within(span.file, within)):
            return False
        if not chosen.shows(finding.code) or chosen.grade(finding.code, finding.severity) == "off":
            return False
        text = text_of(span.file) or ""
        if chosen.accepted and chosen.accepts(finding.code, "".join(lines_of(text)[span.line - 1 : span.line])):
            return False
        return not silenced(finding.code, span.line, span.end_line, ignored(text))

    def first_read(path: str) -> str | None:
        if path not in read:
            read[path] = job.read(path)
        return read[path]

    load, leaves = user_file.loader(job), job.leaf_modules

    def send(fixed: FixedFiles) -> None:
        before = {path: read.get(path) or "" for path in fixed.texts}
        parts.move(fixed.applied[-1])
        applied = [{"title": fix.title, "files": sorted({edit.file for edit in fix.edits})} for fix in fixed.applied]
        job.send("fixed", before=before, texts=fixed.texts, applied=applied)

    known = [(as_object(each["finding"]), _as_fix(each["fix"])) for each in job.message["known"]]

    def begin(target: Target) -> None:
        job.step("verify")
        job.send("fixing", number=targets.index(target))

    with alone.where(job.message["alone"]), keeping_files():
        fix_all(
            job.path,
            targets,
            read=first_read,
            load=load,
            leaf_modules=leaves,
            tracer=job.tracer,
            names=scope.names(),
            wanted=wanted,
            takes=parts.hold,
            unsafe=job.message["unsafe"],
            checker=checker_of(job.message["capture"]),
            others=[Target(**target) for target in job.message["others"]],
            known=known,
            folder=job.folder,
            on_target=begin,
            on_fixed=send,
        )


def _as_fix(fix: Mapping[str, Any]) -> Fix:
    """The fix of a record, as far as it has to be known to apply it."""
    from fxlib.diagnosis.fixes.edits import Edit
    from fxlib.diagnosis.fixes.fix import Fix

    return Fix(fix["id"], fix["title"], fix["kind"], tuple(Edit(**each) for each in fix["edits"]))


class _Parts:
    """Parts of a file, by their first lines (from 1). Each fix may change only one of them."""

    def __init__(self, path: str, starts: Sequence[int]) -> None:
        self._path, self._starts = path, list(starts)

    def hold(self, fix: Fix) -> bool:
        """Whether one of them contains all changes of the fix; always true without parts."""
        if not self._starts:
            return True
        touched = {bisect_right(self._starts, line) for edit in fix.edits for line in (edit.line, edit.end_line)}
        return len(touched) == 1 and all(edit.file == self._path for edit in fix.edits)

    def move(self, fix: Fix) -> None:
        """Shift the parts below an applied fix."""
        after = bisect_right(self._starts, fix.edits[0].line)
        lines = sum(edit.text.count("\n") - (edit.end_line - edit.line) for edit in set(fix.edits))
        self._starts[after:] = [start + lines for start in self._starts[after:]]


# On the server


@dataclass(frozen=True)
class Fixed:
    """The texts after all fixes that hold, by path, those that the fixes were made for, and the fixes."""

    texts: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    applied: Sequence[Applied] = ()

    def then(self, later: Fixed) -> Fixed:
        """Both results, one after the other."""
        before = {**later.before, **self.before}
        return Fixed({**self.texts, **later.texts}, before, [*self.applied, *later.applied])


class Known(TypedDict):
    """A finding, and a fix of it that was proven on the text as it is."""

    finding: Finding
    fix: FixOfRecord


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
    parts: Sequence[int] = (),
    unsafe: bool = False,
) -> Fixed:
    """The file, and the files that it uses, after all proven fixes for a capture. Findings that ``chosen`` or a comment
    leaves out are not fixed. If ``within`` is given, only these files and folders may be changed. If ``parts`` of the
    file are given, by their first lines, each fix changes only one of them. With ``unsafe`` fixes may assume what the
    code does not say."""
    others = models_of(record)
    known: Sequence[Known] = ()
    wanted = {target["name"] for target in record["targets"]}
    if capture == "fx":
        known, wanted = ((), _with_fixes(record)) if unsafe else _to_prove(record, request.path)
    targets = [others[name] for name in others if name in wanted]
    fixed = Fixed()
    limits = replace(request.limits, deadline=max(request.limits.deadline, _LEAST_SECONDS))
    for _ in range(_MOST_PROCESSES):
        if not targets and not known:
            break
        given = _with_texts(request, fixed.texts)
        turn = _Turn(request.path, len(targets))
        message = given.message(
            "fix_all", targets=targets, selection=asdict(chosen), within=within, capture=capture, parts=parts,
            others=[*others.values()], unsafe=unsafe, known=known,
            alone=any(each["alone"] for each in record["targets"]),
        )  # fmt: skip
        try:
            outcome = await pool.run(message, limits, turn.take, captures=capture != "fx")
        except WorkerUnavailable:
            break
        fixed = fixed.then(turn.fixed)
        if outcome.end == "done" or turn.again or parts:  # only that process knew the current first lines
            break
        # A target whose fixes hang or crash is left unchanged; the others continue in a new process.
        at = targets[turn.number]["construct"] if turn.begun else "its start"
        log.warning("fixing all of %s: the process ended at %s", request.path, at)
        if known and not turn.begun:  # fixes that are proven already are proven again
            wanted = _with_fixes(record)
            known, targets = (), [others[name] for name in others if name in wanted]
        else:
            known, targets = (), targets[turn.number + 1 :]
    return fixed


def _with_fixes(record: Record) -> set[str]:
    return {target["name"] for target in record["targets"] if any(each["fixes"] for each in target["findings"])}


def _to_prove(record: Record, path: str) -> tuple[list[Known], set[str]]:
    """The fixes of the file itself that the record says are proven, and the models whose fixes have to be proven still:
    all of them after one of several, and none where the record knows of every fix what became of it."""
    known: list[Known] = []
    after: set[str] = set()
    unknown: set[str] = set()
    for (_, shown), *same in groups(record):
        fixes = [fix for fix in shown["fixes"] if fix["capture"] == "fx"]
        names = {each["target"] for each in (shown, *(other for _, other in same)) if each["target"] and each["fixes"]}
        proven = next((fix for fix in fixes if fix["preferred"]), None)
        if proven is not None and all(edit["file"] == path for edit in proven["edits"]):
            after |= names if known else set()
            known.append({"finding": shown, "fix": proven})
        elif proven is not None:
            unknown |= names  # the other file may have changed since
        elif fixes:
            # For another model that has the problem, too, the fix may prove itself.
            unknown |= names - {shown["target"]} if all(fix["checked"] for fix in fixes) else names
            after |= names
    return known, (unknown | after if known else unknown)


def _with_texts(request: Request, texts: Mapping[str, str]) -> Request:
    others = {path: text for path, text in texts.items() if path != request.path}
    return replace(request, text=texts.get(request.path, request.text), overlays={**request.overlays, **others})


class _Turn:
    """The state from one process's events: the current target, whether it has ``begun`` and is its second turn, and the
    fixes so far."""

    def __init__(self, path: str, count: int) -> None:
        self._path = path
        self._count = count
        self.number = 0
        self.begun = self.again = False
        self.fixed = Fixed()

    def take(self, event: Json) -> None:
        kind = event.get("event")
        if kind == "fixing":
            if not 0 <= event["number"] < self._count:
                raise ValueError("there is no such target")
            self.begun = True
            self.again = self.again or event["number"] < self.number
            self.number = max(self.number, event["number"])
        elif kind == "fixed":
            self.fixed = Fixed(event["texts"], event["before"], event["applied"])
        elif kind == "failed":
            log.warning("fixing all of %s failed: %s", self._path, event["detail"])
