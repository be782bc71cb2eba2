"""torch.compile: where and why the graph breaks, and the resulting graphs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

import torch

from fxlib.captures import recompiling, torch_side
from fxlib.captures.break_log import Break, break_of, breaks_of_log
from fxlib.captures.break_rules import failure_of, finding_of, first_line, stopped_at
from fxlib.captures.isolation import copied, restored
from fxlib.captures.places import frames_of, is_users
from fxlib.captures.replacing import Functions, Replacements
from fxlib.captures.verdict import Part, Verdict
from fxlib.diagnosis.report import Finding

__all__ = ["judge_compile"]

_CALLS = 3  # of the example
_PASSES = 8  # analyses of code behind breaks; each pass replaces the breaks found by the one before


def judge_compile(
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict[str, Any],
    more: Iterable[tuple[tuple, dict[str, Any]]] = (),
    functions: Functions | None = None,
) -> Verdict:
    """What ``torch.compile(module)(*args, **kwargs)`` does, with Dynamo's own reasons. ``functions``: see
    `Replacements`.

    The model runs on its inputs, as it does for a user, with a backend that keeps the graphs and runs them unchanged.
    Code that Dynamo did not reach because of a break (the rest of a function that it gave up) is analysed in further
    runs, in which the breaking expressions have the values of an eager run.

    The model is called three times, and then with each of ``more``: each cause of a recompilation is a finding, and so
    is the first of these calls that raises.
    """
    start = time.perf_counter()
    with restored(module):
        calls = [(args, kwargs)] * _CALLS + [*more]
        run = torch_side.compiled_parts(module, [copied(call) for call in calls])
    if not run.graphs and run.error is None and (reason := torch_side.turned_off()) is not None:
        return Verdict("compile", "unknown", reason)
    verdict = Verdict("compile", "captured", fullgraph=True)
    breaks = breaks_of_log(run, torch_side.__file__)
    verdict.parts = [_part(graph, end) for graph, end in zip(run.graphs, run.ends, strict=True)]
    # A graph that ends at a break tells so even where its log does not.
    ended = sum(end is not None for end in run.ends)
    verdict.breaks = len({(each.span, each.inside) for each in breaks}) or ended
    hidden: list[Break] = []
    complete = False
    error = run.error or next((each for number, each in run.later.items() if number >= _CALLS), None)
    if error is not None:
        verdict.outcome, verdict.reason = "fails", first_line(error)
    elif verdict.breaks:
        verdict.outcome = "parts"
    whole: BaseException | None = None
    if verdict.breaks or run.error is not None:
        with restored(module):
            whole = torch_side.compiled_whole(module, *copied((args, kwargs))).error
        verdict.fullgraph = whole is None
    if any(each.skipped for each in breaks) or (breaks and run.error is not None):
        hidden, complete = _hidden(module, args, kwargs, breaks, functions)
    verdict.complete = run.error is None and (complete or not any(each.skipped for each in breaks))
    verdict.findings = _findings(breaks, hidden)
    verdict.findings += recompiling.findings_of(module, run.log)
    if error is not None:
        verdict.findings.append(failure_of(error))
    elif whole is not None and not _is_reported(whole, verdict.findings):
        # Without breaks Dynamo gets further, and may fail at code that it does not reach with them.
        verdict.findings.append(failure_of(whole, fullgraph=True))
    verdict.seconds = time.perf_counter() - start
    return verdict


def _hidden(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], known: list[Break], functions: Functions | None
) -> tuple[list[Break], bool]:
    """Breaks that appear only once the known ones are fixed, and whether these are all."""

    def eager() -> None:
        with restored(module), torch_side.quiet():
            module(*copied(args), **copied(kwargs))

    replacements = Replacements(eager, functions)
    found: list[Break] = []
    places = {each.span for each in known}
    new = list(known)
    for _ in range(_PASSES):
        places_of_new = {each.span for each in new if each.span is not None}
        if len(replacements.add(list(places_of_new))) < len(places_of_new):
            return found, False
        with restored(module), replacements.applied():
            run = torch_side.compiled_parts(module, [copied((args, kwargs))])
        new = [each for each in breaks_of_log(run, torch_side.__file__) if not _overlaps(each.span, places)]
        places.update(each.span for each in new)
        found += new
        if not new:
            return found, run.error is None
    return found, False


def _findings(breaks: list[Break], hidden: list[Break]) -> list[Finding]:
    """One finding for each user expression, in the order of the run."""
    by_place: dict[Any, list[Break]] = {}
    for each in [*breaks, *hidden]:
        by_place.setdefault(each.span, []).append(each)
    return [finding_of(group, hidden=group[0] in hidden) for group in by_place.values()]


def _is_reported(error: BaseException, findings: list[Finding]) -> bool:
    """Whether an error of ``fullgraph=True`` is about one of the expressions at which the graph breaks without it."""
    path = stopped_at(error)
    return torch_side.is_unsupported(error) and (not path or path[-1] in [each.span for each in findings])


def _overlaps(span: Any, places: set[Any]) -> bool:
    """Whether a place overlaps one of those that were replaced."""
    if span is None:
        return True
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    return any(
        other is not None
        and other.file == span.file
        and start < (other.end_line, other.end_column)
        and (other.line, other.column) < end
        for other in places
    )


def _part(graph: Any, end: Any) -> Part:
    lines: dict[str, set[int]] = {}
    operators = 0
    for node in graph.graph.nodes:
        if not node.op.startswith("call_"):
            continue
        operators += 1
        for frame in frames_of(node.meta.get("stack_trace") or ""):
            if is_users(frame.file):
                lines.setdefault(frame.file, set()).add(frame.line)
    ended = break_of("", end).span if end is not None else None
    return Part(operators, {file: sorted(found) for file, found in lines.items()}, _code(graph), ended, graph.graph)


def _code(graph: Any) -> str:
    return re.sub(r"\n{3,}", "\n\n", graph.code).strip() + "\n"
