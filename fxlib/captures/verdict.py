"""The result of a capture for one model, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fxlib.captures.places import shown
from fxlib.diagnosis.report import Finding
from fxlib.diagnosis.rules import RULES
from fxlib.ir.span import Span

__all__ = ["CAPTURES", "Judgement", "Part", "Verdict", "holds_for", "sentence"]

CAPTURES = ("export", "compile", "strict", "shapes")
"""The captures that are run here; ``"strict"`` is ``torch.export.export(strict=True)``, and ``"shapes"`` is
torch.export with sizes that vary. `fxlib.diagnose` is for torch.fx."""


@dataclass
class Part:
    """One captured graph: its number of operators, the user's lines by file that they came from, and its code.

    ``ended_by`` is the expression that the next graph starts after; None for the last one. ``graph`` is a
    ``torch.fx.Graph`` and not part of records; ``weights`` maps its placeholders for parameters and buffers to their
    names.
    """

    operators: int
    lines: dict[str, list[int]]
    code: str
    ended_by: Span | None = None
    graph: Any = field(default=None, repr=False, compare=False)
    weights: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass
class Verdict:
    """What one capture does with a model.

    ``outcome`` is ``"captured"`` (one graph that is all of forward), ``"parts"`` (torch.compile runs it in several
    graphs, or partly without one), ``"pinned"`` (exported for one size only), ``"fails"`` (it raises where eager does
    not) or ``"unknown"``, and ``reason`` says why in the last three cases. ``fullgraph``: whether
    ``torch.compile(fullgraph=True)`` accepts it. ``breaks`` counts the graph breaks as ``TORCH_LOGS=graph_breaks``
    does: by place. ``complete``: everything that eager runs was analysed, also the code after failures and breaks.
    ``seconds`` is the time that it took. ``dimensions``, only of ``"shapes"``: the result for each dimension of the
    inputs, by the name of its tensor and its number: ``"free"``, ``"pinned"``, or ``"fixed"`` if the model itself
    accepts one size only.
    """

    capture: str
    outcome: str
    reason: str = ""
    findings: list[Finding] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    breaks: int = 0
    fullgraph: bool | None = None
    complete: bool = False
    seconds: float = 0.0
    replaced: Any = field(default=None, repr=False, compare=False)
    dimensions: dict[tuple[str, int], str] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The verdict in two or three words: ``"export ✓"``, ``"compile 2 breaks"``."""
        if self.capture == "shapes":
            return self.reason if self.outcome == "pinned" else f"shapes {'✓' if self.outcome == 'captured' else '?'}"
        if self.outcome == "parts":
            return f"{self.capture} {self.breaks} break{'' if self.breaks == 1 else 's'}"
        return f"{self.capture} {({'captured': '✓', 'fails': '✗'}).get(self.outcome, '?')}"


@dataclass
class Judgement:
    """All results for one model. ``verdicts`` by the name of the capture; ``findings`` are those of all captures,
    without duplicates: ``data["captures"]`` maps the captures that it affects to the code that it has there."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    specification: Any = None

    @property
    def text(self) -> str:
        return " · ".join(verdict.text for verdict in self.verdicts.values())


def holds_for(capture: str, code: str) -> dict[str, str]:
    """The code of a finding for one capture, from ``data["captures"]``."""
    return {capture: code}


def sentence(code: str, span: Span | None, package: str = "", error: str = "") -> str:
    """The message of a rule's finding at an expression; ``package`` and ``error`` as in `Rule`."""
    rule = RULES[code]
    said = rule.says(f"`{shown(span)}`", package=package, error=error)
    return " ".join(filter(None, [said if said.endswith(".") else f"{said}.", rule.advice]))
