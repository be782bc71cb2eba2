"""What a misleading answer hides: forward once more, with the answers that a normal run gets.

A trace that is told that ``mask is None`` is False, or whose failure a handler swallows, goes another way than a normal
run and never sees the code that calls will take. When nothing new can be found on the trace's own way, the questions
that misled it are answered as a normal run answers them; what is found then comes up once they are mended, and says so.
"""

from __future__ import annotations

import ast
import enum
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from fxlib.diagnosis.engine import source
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.report import Finding, Related
from fxlib.ir.span import Span

if TYPE_CHECKING:
    from fxlib.diagnosis.engine.session import Session
    from fxlib.diagnosis.engine.state import State

__all__ = ["Behind"]

_MISLEADING = frozenset({"FX201", "FX202", "FX203", "FX204", "FX205", "FX215", "FX216", "FX218", "FX231"})
_ROUNDS = 6
_RUNS = 16
_EXPLORING_RUNS = 2
_SECONDS = 1.0
_PATIENCE = 2.0
_REGIONS = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Try, ast.comprehension)
_GIVEN = (bool, int, float, str, enum.Enum, torch.dtype, type(None))


class Behind:
    """The runs after the runs; see the module. ``detectors`` are those that read the graph of a run.

    What the session found out about its own way (its graph, what was reached, what decided) stays as it is.
    """

    def __init__(self, session: Session, state: State, detectors: tuple[Callable[..., None], ...]) -> None:
        self.session = session
        self.state = state
        self.detectors = detectors
        self._mended: list[tuple[Finding, Span]] = []
        self._seen: set[tuple[str, Any]] = set()

    def explore(self) -> None:
        """Mend what has misled, run, and again with what misled there."""
        session = self.session
        kept = (session.tracer, session.graph, session.values, session.complete, session.state, session.concrete_args)
        reached, deciding = set(session.reached), dict(session.deciding)
        used_up, late = time.thread_time() + _SECONDS, time.monotonic() + _PATIENCE
        try:
            for _ in range(_ROUNDS):
                if time.thread_time() > used_up or time.monotonic() > late or not self._mend():
                    break
                session.state = {}
                session.behind = self
                session.questions.forget_choices()
                self.state.restore()
                session.search(_RUNS, _EXPLORING_RUNS, used_up - time.thread_time(), late - time.monotonic())
            if session.behind is not None:
                for detector in self.detectors:
                    session.guarded(detector, session, self.state, None)
        finally:
            session.behind = None
            session.tracer, session.graph, session.values, session.complete, session.state, concrete = kept
            session.concrete_args = concrete
            session.reached, session.deciding = reached, deciding

    # --- what misled --------------------------------------------------------------------------------------------------

    def _mend(self) -> bool:
        """Have every question that misled, and is not mended yet, answered as a normal run answers it. False when there
        is none."""
        session = self.session
        graph = session.graph
        inputs = {n.name: str(n.target) for n in graph.nodes if n.op == "placeholder"} if graph is not None else {}
        given: dict[str, Any] = {}
        done = False
        for key, finding in list(session.findings.items()):
            place = session.places.get(key)
            if key in self._seen or place is None or finding.code not in _MISLEADING:
                continue
            argument = inputs.get(finding.node or "", "")
            given_none = finding.code == "FX201" and session.inputs.get(argument, finding) is None
            if finding.severity not in ("error", "warning") and not given_none:
                continue
            self._seen.add(key)
            if self._can_be_given(argument):
                given[argument] = session.inputs[argument]
            elif finding.code == "FX215" and "rule" not in finding.data:
                # A question: `Questions` answers it from now on.
                pass
            elif finding.inside is not None:
                # The user's call of a package: it has its value, however the question inside of it came out.
                if not session.cuts.cut(place, PACKAGE_FUNCTION):
                    continue
            elif not session.cuts.cut(place, finding.data.get("rule", finding.code), misled=finding):
                continue
            self._mended.append((finding, _region(place)))
            done = True
        if given:
            session.concrete_args = {**(session.concrete_args or {}), **given}
        return done

    def _can_be_given(self, argument: str) -> bool:
        """Whether the argument can be fixed to its example, which mends every question about it."""
        session = self.session
        if not argument or argument.startswith("*") or not isinstance(session.concrete_args, (Mapping, type(None))):
            return False
        return argument in session.inputs and isinstance(session.inputs[argument], _GIVEN)

    # --- what was found behind it -------------------------------------------------------------------------------------

    def hiding(self, place: Place | None) -> Finding:
        """The finding that hides what is at ``place``: the innermost around it or around a call that leads there, else
        the last before it, else the first of all."""
        path = () if place is None else place.call_path
        around = [(region, finding) for finding, region in self._mended if any(within(step, region) for step in path)]
        if around:
            return min(around, key=lambda pair: (pair[0].end_line - pair[0].line, -pair[0].line))[1]
        before = [
            finding
            for finding, _ in self._mended
            if finding.span is not None
            and any(s.file == finding.span.file and (s.line, s.column) > finding.span[1:3] for s in path)
        ]
        if before:
            return max(before, key=lambda finding: tuple(finding.span or ())[1:3])
        return self._mended[0][0]

    def sentence(self, hiding: Finding, place: Place | None) -> str:
        """When a finding at ``place`` comes up: the start of a sentence."""
        span = hiding.span
        assert span is not None
        what = source.text_of(self.session.places[hiding.code, span].node) if self._has_text(hiding) else hiding.code
        file = "" if place is None or place.span.file == span.file else f" of {os.path.basename(span.file)}"
        return f"once `{what}` in line {span.line}{file} is mended"

    def _has_text(self, hiding: Finding) -> bool:
        return isinstance(self.session.places[hiding.code, hiding.span].node, ast.AST)

    def note(self, hiding: Finding) -> Related:
        """Where the finding is that hides another."""
        return Related(f"{hiding.code} hides it: a trace takes another way here than a normal run", hiding.span, "note")


def _region(place: Place) -> Span:
    """What is decided at ``place``: the branch or the handler around it, else its statement."""
    node: Any = place.node
    for above in source.ancestors(node) if node is not None else ():
        if isinstance(above, _REGIONS) and hasattr(above, "lineno"):
            return source.span_of(above, place.span.file)
        if isinstance(above, ast.stmt):
            break
    return place.span
