"""Finds problems in code that a misleading answer hides, by running forward with the answers of a normal run.

If a trace sees False for ``mask is None``, or a handler swallows its failure, it takes another path than a normal run
and misses code that calls run. Once nothing new can be found on the trace's own path, the misleading expressions get
their value from a normal run; problems found then appear once these are fixed, and say so.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from fxlib.diagnosis.engine.corrections import Corrections
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION
from fxlib.diagnosis.engine.run import guarded
from fxlib.diagnosis.engine.search import Limits, Search, unhindered
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["EagerPath"]

_ROUNDS = 6
_LIMITS = Limits(runs=16, exploring=2, seconds=1.0, patience=2.0)
_GIVEN = (bool, int, float, str, enum.Enum, torch.dtype, type(None))


class EagerPath:
    """The searches after the first one; see the module. Their findings are added to those of the first search, whose
    graph and reached code stay unchanged."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.corrections = Corrections()
        self._seen: set[tuple[str, Span | None]] = set()

    def explore(self, detectors: Iterable[Callable[[Search], None]]) -> None:
        """Correct the misleading expressions, run, and repeat with those found there; ``detectors`` then read the last
        search."""
        first = self.search
        used_up, late = time.thread_time() + _LIMITS.seconds, unhindered() + _LIMITS.patience
        for _ in range(_ROUNDS):
            left, wait = used_up - time.thread_time(), late - unhindered()
            if left < 0 or wait < 0 or not self._correct():
                break
            first.subject.snapshot.restore()
            self.search.explore(replace(_LIMITS, seconds=left, patience=wait))
        if self.search is not first:
            for detector in detectors:
                guarded(detector, self.search)

    def _correct(self) -> bool:
        """Correct every misleading expression that is not corrected yet. False if there is none."""
        search = self.search
        inputs = {node.name: str(node.target) for node in search.best.nodes if node.op == "placeholder"}
        given: dict[str, Any] = {}
        done = False
        for finding in search.findings:
            key, place = (finding.code, finding.span), search.findings.place_of(finding)
            if key in self._seen or place is None or not RULES[finding.code].misleads:
                continue
            argument = inputs.get(finding.node or "", "")
            given_none = finding.code == "FX201" and search.subject.inputs.get(argument, finding) is None
            if finding.severity not in ("error", "warning") and not given_none:
                continue
            self._seen.add(key)
            if self._can_be_given(argument):
                given[argument] = search.subject.inputs[argument]
            elif finding.code == "FX215" and "rule" not in finding.data:
                # `Questions` answers it from now on.
                pass
            elif finding.inside is not None:
                # The user's call of a package gets its value, however the question inside was answered.
                if not search.cuts.cut(place, PACKAGE_FUNCTION):
                    continue
            elif not search.cuts.cut(place, finding.data.get("rule", finding.code), misled=finding):
                continue
            self.corrections.add(finding, place)
            done = True
        if done:
            concrete = search.course.concrete_args
            course = replace(
                search.course,
                concrete_args={**(concrete or {}), **given} if given else concrete,
                answers={},
                corrections=self.corrections,
            )
            first = search
            self.search = Search(first.subject, first.detectors, first.findings, first.cuts, first.choices, course)
        return done

    def _can_be_given(self, argument: str) -> bool:
        """Whether the argument can be fixed to its example, which answers every question about it."""
        search = self.search
        if not argument or argument.startswith("*"):
            return False
        if not isinstance(search.course.concrete_args, (Mapping, type(None))):
            return False
        return argument in search.subject.inputs and isinstance(search.subject.inputs[argument], _GIVEN)
