"""The misleading answers that a run corrects, and what each of them hides."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from typing import Any

from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.report import Finding, Related
from fxlib.ir.span import Span

__all__ = ["Correction", "Corrections"]

_REGIONS = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Try, ast.comprehension)


@dataclass(frozen=True)
class Correction:
    """A finding whose expression gets its value from a normal run, and its place."""

    finding: Finding
    place: Place

    @property
    def region(self) -> Span:
        """The code that it decides: the branch or handler around it, otherwise its statement."""
        node: Any = self.place.node
        for above in trees.ancestors(node) if node is not None else ():
            if isinstance(above, _REGIONS) and hasattr(above, "lineno"):
                return trees.span_of(above, self.place.span.file)
            if isinstance(above, ast.stmt):
                break
        return self.place.span

    def condition(self, place: Place | None) -> str:
        """The start of a sentence that says when a finding at ``place`` appears."""
        span = self.place.span
        what = f"`{trees.text_of(self.place.node)}`" if isinstance(self.place.node, ast.AST) else self.finding.code
        file = "" if place is None or place.span.file == span.file else f" of {os.path.basename(span.file)}"
        return f"After {what} (line {span.line}{file}) is fixed"

    def note(self) -> Related:
        """A note with the place of the finding that hides another."""
        text = f"{self.finding.code} hides this: tracing takes another branch here than a normal run"
        return Related(text, self.finding.span, "note")


class Corrections:
    """All corrections of a run."""

    def __init__(self) -> None:
        self._all: list[tuple[Span, Correction]] = []

    def add(self, finding: Finding, place: Place) -> None:
        correction = Correction(finding, place)
        self._all.append((correction.region, correction))

    def hiding(self, place: Place | None) -> Correction:
        """The correction that hides ``place``: the innermost around it or around a call that leads there, otherwise the
        last before it, otherwise the first of all."""
        path = () if place is None else place.call_path
        around = [(region, each) for region, each in self._all if any(within(step, region) for step in path)]
        if around:
            return min(around, key=lambda pair: (pair[0].end_line - pair[0].line, -pair[0].line))[1]
        before = [each for _, each in self._all if any(_after(step, each.place.span) for step in path)]
        if before:
            return max(before, key=lambda each: each.place.span[1:3])
        return self._all[0][1]


def _after(step: Span, span: Span) -> bool:
    return step.file == span.file and (step.line, step.column) > span[1:3]
