"""The record of one file: from the cache, or from the trace and the jobs that add to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fxlens.host.outcome import Unfinished
from fxlens.host.pool import Pool
from fxlens.ipc.request import Request
from fxlens.jobs import captures as captures_job
from fxlens.jobs import compare, lowering_hints, trace, verify
from fxlens.overlays import with_captures, with_compared, with_note
from fxlens.record import Record
from fxlens.sources.files import began_now
from fxlens.sources.roles import Said

if TYPE_CHECKING:
    from fxlens.config.selection import Selection

    from .checker import Options


async def record_of(
    pool: Pool,
    request: Request,
    options: Options,
    lowering: bool = False,
    captures: Sequence[str] = (),
    said: Said | None = None,
) -> Record:
    """The record with checked fixes, from the cache if nothing has changed. Classes that are not known to be captured
    are skipped, since their obstacles are not shown. A record is kept only if every job came to its end."""
    captures = [each for each in captures if each != "fx"]
    asked_of = [said.scope, *sorted(said.watched)] if said else [""]
    asked = (options.verify, lowering, [*captures, *asked_of, str(options.every)])
    record = options.cache.get(request, *asked) if options.cache else None
    if record is not None:
        return record
    began = began_now()
    notes: list[str | None] = []
    record = await trace.run(pool, request)
    parts = said.parts(names(record)) if said else {}
    quiet = {name for name, part in parts.items() if part.limit == "hint"}
    if options.verify:
        record, note = await verify.run(pool, request, record, without=quiet, every=options.every)
        found, unlike = await compare.run(pool, request, record, quiet)
        record = with_compared(record, found)
        notes += [note, unlike]
    if captures:
        verdicts, note = await captures_job.run(pool, request, record, names(record), captures)
        record = with_captures(record, verdicts)
        notes += [note, _without_inputs(request.path, record)]
        if options.verify:
            record, note = await verify.run(pool, request, record, captures=True, without=quiet, every=options.every)
            notes.append(note)
    if lowering:
        record, note = await lowering_hints.run(pool, request, record)
        notes.append(note)
    for note in dict.fromkeys(notes):
        record = with_note(record, note)
    if options.cache and not any(isinstance(note, Unfinished) for note in notes):
        options.cache.put(request, options.verify, record, began, *asked[1:])
    return record


def asks_for_lowering(chosen: Selection) -> bool:
    named = [*chosen.select, *(code for code, grade in chosen.severity.items() if grade != "off")]
    return any(code.startswith("FX4") for code in named)


def names(record: Record) -> list[str]:
    return [target["name"] for target in record["targets"]]


def _without_inputs(path: str, record: Record) -> str | None:
    """Which models other captures could not be run on."""
    lacking = [each["name"] for each in record["targets"] if each["construct"] and not each["inputs"]]
    if not lacking:
        return None
    return (
        f"{path}: captures other than fx were not run on {', '.join(lacking)}, since no example inputs are known; "
        f"write them above the class: # fxlens: <- torch.randn(2, 3)"
    )
