"""Exceptions from the user's code during a run: where they were raised, and which handlers hide them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.failures import Failure, about_tracing, rule_of
from fxlib.diagnosis.engine.findings import first_line
from fxlib.diagnosis.engine.frames import constant, raising_frame
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.raised import way_of
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.trees import ancestors, span_of
from fxlib.diagnosis.report import Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import is_hidden

__all__ = [
    "checks_proxy", "failure_of", "found_in_tests", "misled", "note_swallowed", "place_of_error", "proxies_read",
    "reads_proxy", "reraised", "swallowed",
]  # fmt: skip


def place_of_error(run: Run, error: BaseException) -> Place | None:
    """The user's innermost expression that raised ``error``."""
    site: Any = None
    for trace in way_of(error, is_hidden):
        site = (trace.tb_frame.f_code, trace.tb_lasti, site)
    return run.place_at(site)


def failure_of(error: BaseException, place: Place) -> Failure:
    """The error, with the callee of the expression that raised it."""
    called = constant(place.node.func, raising_frame(error)) if isinstance(place.node, ast.Call) else None
    return Failure(error, place, called)


def misled(run: Run, place: Place) -> list[tuple[str, Place]]:
    """The tests around a raise whose result differs between traced and real values, with their rules."""
    return [(code, own) for code, own in found_in_tests(run, place) if RULES[code].misleads]


def checks_proxy(run: Run, place: Place, error: BaseException) -> bool:
    """Whether it is raised under a test of a traced value without any question or finding: the test depends on the
    proxy object itself."""
    frame = raising_frame(error)
    if not isinstance(place.node, ast.Raise) or frame is None or _in_handler(place):
        return False
    names = {node.id for test in _tests(place) for node in ast.walk(test) if isinstance(node, ast.Name)}
    local = frame.f_locals
    traced = any(wrapping.find_proxy(local[name]) is not None for name in names & local.keys())
    return traced and not any(True for _ in found_in_tests(run, place))


def reraised(run: Run, error: BaseException) -> bool:
    """Whether a user's handler raised ``error`` in place of the one that it handles."""
    place = place_of_error(run, error)
    return place is not None and isinstance(place.node, ast.Raise) and _in_handler(place)


def _in_handler(place: Place) -> bool:
    return any(isinstance(above, ast.ExceptHandler) for above in ancestors(place.node))


def _tests(place: Place) -> list[ast.expr]:
    """The tests of the ``if`` statements around a place."""
    return [above.test for above in ancestors(place.node) if isinstance(above, ast.If)]


def found_in_tests(run: Run, place: Place) -> Iterator[tuple[str, Place]]:
    """What was found in the tests around a place, with the codes."""
    tests: list[Any] = [*_tests(place)]
    if isinstance(place.node, (ast.Assert, ast.Call)):
        tests.append(place.node)
    around = [span_of(test, place.span.file) for test in tests]
    for finding in run.findings:
        own = run.findings.place_of(finding)
        # In the test, or in a function that it calls.
        steps = () if own is None else (own.span, *own.call_path)
        if own is not None and any(within(step, test) for step in steps for test in around):
            yield finding.code, own


def reads_proxy(run: Run, place: Place | None, error: BaseException) -> bool:
    """Whether the expression that failed has a traced value among its names. A user's own raise has none."""
    frame = raising_frame(error)
    if place is None or place.node is None or frame is None or isinstance(place.node, ast.Raise):
        return False
    if isinstance(error, AssertionError) and not misled(run, place):
        return False
    return bool(proxies_read(place, error))


def proxies_read(place: Place | None, error: BaseException) -> list[Proxy]:
    """The traced values among the names of the expression that failed, one of each."""
    frame = raising_frame(error)
    if place is None or not isinstance(place.node, ast.AST) or frame is None:
        return []
    local = frame.f_locals
    names = {node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)}
    found = [wrapping.find_proxy(local[name]) for name in names & local.keys()]
    return [each for each in found if each is not None]


def swallowed(run: Run, error: BaseException) -> None:
    """Record ``error``, which a user's handler hides, if it is a failure of the trace."""
    place = None if any(error is known for known in run.refused) else place_of_error(run, error)
    if place is None or ("FX215", place.span) in run.findings:
        return
    rule = rule_of(failure_of(error, place))
    if about_tracing(error) or (rule != "FX199" and reads_proxy(run, place, error)):
        note_swallowed(run, place, f"{type(error).__name__}: {first_line(error)}", rule)


def note_swallowed(run: Run, place: Place, text: str, rule: str | None = None) -> None:
    """Record a failure of the trace that a user's handler hides; ``rule`` is its code, unless it was a question."""
    note = Related(f"the handler hides: {text}", place.span, "torch")
    data = {} if rule is None else {"rule": rule}
    run.add("FX215", place, related=(note,), data=data)
