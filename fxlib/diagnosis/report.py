"""The result of a diagnosis: findings, the graph, and code that the trace did not reach. Plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fxlib.diagnosis.rules import RULES

if TYPE_CHECKING:
    from fxlib.codegen.graph_module import GraphModule
    from fxlib.ir.graph import Graph
    from fxlib.ir.span import Span

__all__ = ["Baked", "Finding", "Mutation", "MutationError", "Related", "Report", "Untaken"]


@dataclass(frozen=True)
class Related:
    """A message beside a finding. ``kind`` is ``"torch"`` (the text torch.fx prints), ``"call"`` (a step of the call
    path), ``"value"`` (the value that decided) or ``"note"``."""

    message: str
    span: Span | None = None
    kind: str = "note"


@dataclass(frozen=True)
class Finding:
    """One problem at one place.

    ``span`` is the exact expression (lines from 1, columns from 0 in UTF-8 bytes), or ``None`` if the problem has no
    place in a file. ``call_path`` leads from the root's forward to ``span``, its last item. ``node`` is the name of the
    graph node concerned. ``data`` holds facts for the fixes, such as ``{"form": "if", "cause": "data"}``. ``hidden_by``
    is the place of a misleading finding that keeps the trace from getting here: this problem appears once that one is
    fixed. ``inside`` is the place in an installed package, if ``span`` is the user's call of one of its functions.
    """

    code: str
    severity: str
    message: str
    span: Span | None = None
    related: tuple[Related, ...] = ()
    call_path: tuple[Span, ...] = ()
    node: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    hidden_by: Span | None = None
    inside: Span | None = None

    @property
    def loud(self) -> bool:
        """Whether torch.fx raises here."""
        return self.hidden_by is None and RULES[self.code].loud

    @property
    def misleads(self) -> bool:
        """Whether it makes the trace take another branch than a normal run."""
        return RULES[self.code].misleads and self.severity in ("error", "warning")


@dataclass(frozen=True)
class Untaken:
    """A part of forward that the trace never reached, and the value that decided."""

    span: Span
    reason: str


@dataclass(frozen=True)
class Baked:
    """A value that was read while tracing and is now a constant of the graph."""

    span: Span
    text: str
    value: str


@dataclass(frozen=True)
class Mutation:
    """A node that writes in place, and its target: an input, a tensor of the module, or another node."""

    span: Span | None
    node: str
    written: str


class MutationError(ValueError):
    """Raised by `Report.refuse_mutation`: the model changes something in place."""


@dataclass
class Report:
    """The result of :func:`fxlib.diagnose`.

    ``traces`` says whether torch.fx traces this root. If so, ``graph`` is complete; otherwise it goes as far as the
    trace could continue past the findings. ``graph_module`` is None unless torch.fx traces the root. ``error`` is what
    torch.fx raises, as ``(class name, message)``. ``taken`` are the blocks under conditions that were reached,
    ``untaken`` those that were not. ``mutations`` are the nodes of ``graph`` that write in place, including those that
    no rule reports (a ReLU on a value without other readers). ``doubts`` say what functions that are one call each in
    the graph may do beside, where nothing shows that they do: no findings, but reasons not to rely on it. ``returned``
    describes results of calls of submodules and functions: by the name of the last node in them, the spans of such
    calls on the path to it, with the names of the returned nodes (nested in lists and dicts as there). ``doubtful``:
    the code does more than call layers and torch, so `fxlib.compare` may find differences that no rule covers.
    ``timings`` are milliseconds.
    """

    findings: list[Finding] = field(default_factory=list)
    traces: bool = False
    taken: list[Span] = field(default_factory=list)
    untaken: list[Untaken] = field(default_factory=list)
    baked: list[Baked] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    error: tuple[str, str] | None = None
    timings: dict[str, float] = field(default_factory=dict)
    _graph: Graph | None = None
    _make: Callable[[Graph], GraphModule] | None = None
    _graph_module: GraphModule | None = None
    _annotate: Callable[[Graph], None] | None = None
    _doubt: Callable[[], bool] = lambda: True
    _doubts: Callable[[], list[str]] = list
    _returned: Callable[[], dict[str, list[tuple[Span, Any]]]] = dict

    @property
    def graph(self) -> Graph | None:
        """The traced graph. The values of its nodes are computed at the first access, after the findings."""
        annotate, self._annotate = self._annotate, None
        if annotate is not None and self._graph is not None:
            annotate(self._graph)
        return self._graph

    @property
    def graph_module(self) -> GraphModule | None:
        """The graph as a module, made at the first access, with the values and places of its nodes."""
        make, self._make = self._make, None
        if make is not None and (graph := self.graph) is not None:
            self._graph_module = make(graph)
        return self._graph_module

    @property
    def doubtful(self) -> bool:
        """See the class. Computed at each access, by reading the code."""
        return self._doubt()

    @property
    def doubts(self) -> list[str]:
        """See the class. Computed at each access, by reading the code."""
        return self._doubts()

    @property
    def returned(self) -> dict[str, list[tuple[Span, Any]]]:
        """See the class. Computed at each access."""
        return self._returned()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def refuse_mutation(self) -> None:
        """Raise if forward changes anything in place: a tensor in the graph, an attribute or a buffer of the module, an
        attribute of a traced value.

        Raises:
            MutationError: it does; the message lists every place.
        """
        lines = [f"{_where(each.span)}: {each.node} writes into {each.written}" for each in self.mutations]
        for finding in self.findings:
            if RULES[finding.code].writes and finding.hidden_by is None:
                lines.append(f"{_where(finding.span)}: {finding.code} {finding.message}")
        if lines:
            raise MutationError("the model changes values in place:\n  " + "\n  ".join(lines))

    def codes(self) -> list[str]:
        """The codes of the findings, in order of appearance in the source."""
        return [finding.code for finding in self.findings]


def _where(span: Span | None) -> str:
    return "(no location)" if span is None else f"{span.file}:{span.line}"
