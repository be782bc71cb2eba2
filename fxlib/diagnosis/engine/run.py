"""One attempt to trace: its inputs, its observations, and its result."""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.corrections import Corrections
from fxlib.diagnosis.engine.findings import Findings
from fxlib.diagnosis.engine.place import Place, catcher, place_of
from fxlib.diagnosis.engine.probes import Probe
from fxlib.diagnosis.engine.subject import Subject
from fxlib.diagnosis.engine.values import UNKNOWN, Values, show
from fxlib.diagnosis.report import Baked, Finding, Mutation
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.paths import submodule
from fxlib.ir.span import Site, Span
from fxlib.ir.strict import STRICT

__all__ = ["Course", "Notes", "Region", "Run", "guarded"]

log = logging.getLogger(__name__)
# Torch logs there what its shape functions reject, with a traceback; here it becomes a finding.
_fake_tensor_log = logging.getLogger("torch._subclasses.fake_tensor")


@dataclass(frozen=True)
class Course:
    """The inputs of one run besides its subject: the answers to undecidable questions, by expression; ``flipped``,
    expressions whose value is passed through ``other``; the misleading answers that are corrected."""

    concrete_args: Any = None
    answers: Mapping[Span, bool] = field(default_factory=dict)
    flipped: frozenset[Span] = frozenset()
    other: Callable[[Any], Any] = operator.not_
    corrections: Corrections | None = None


@dataclass(frozen=True)
class Region:
    """Code under a context that a graph lacks, and the rule; ``is_off`` if the context only ends that of a caller."""

    code: str
    place: Place
    span: Span
    is_off: bool = False


@dataclass
class Notes:
    """Data that detectors keep until the end of the run. ``waiting`` holds the first operand of a comparison or call,
    by kind and by the id of the syntax around it, until the second reports. ``unseen``: it is not known of which memory
    an augmented assignment writes to. ``drew``: the state of a random generator has changed."""

    baked: dict[Span, Baked] = field(default_factory=dict)
    training: dict[Span, tuple[Place, bool]] = field(default_factory=dict)
    moments: dict[Span, Place] = field(default_factory=dict)
    numbers: dict[Span, tuple[Place, list[Any]]] = field(default_factory=dict)
    gradients: list[tuple[Place, list[nn.Parameter]]] = field(default_factory=list)
    hooks: dict[Span, tuple[Place, nn.Module]] = field(default_factory=dict)
    modes: list[tuple[Place, nn.Module, int]] = field(default_factory=list)
    copies: dict[Span, Place] = field(default_factory=dict)
    regions: dict[Span, Region] = field(default_factory=dict)
    mutations: list[Mutation] = field(default_factory=list)
    hidden: list[tuple[FunctionType, Node, frozenset[str]]] = field(default_factory=list)
    waiting: dict[tuple[str, int], Any] = field(default_factory=dict)
    unseen: bool = False
    drew: bool = False


class Run:
    """See the module. ``guessed`` is true once a question was answered that only data decides.

    ``reached`` holds the reported block entries, ``deciding`` the first value of each test's probe, ``refused`` the
    errors that a question raised because a user's handler swallows them.
    """

    def __init__(self, subject: Subject, course: Course, findings: Findings) -> None:
        self.subject = subject
        self.course = course
        self.findings = findings
        self.tracer = subject.tracer()
        self.values = Values(self.tracer, subject.inputs)
        self.reached: set[tuple[CodeType, int, str]] = set()
        self.deciding: dict[int, str] = {}
        self.refused: list[BaseException] = []
        self.notes = Notes()
        self.guessed = False
        self.quiet = False
        self.asking: tuple[Probe, Any] | None = None
        """The probe of a question that reported last, and the value it saw."""
        self.error: BaseException | None = None
        self.needing: list[bool] = []
        """The parameters that required gradients afterwards, if forward may change that."""
        self._modules: dict[str, Any] = {}
        self._nodes: list[Node] = []

    @property
    def graph(self) -> Graph | None:
        """The graph so far; None if the trace failed before there was one."""
        return getattr(self.tracer, "graph", None)

    @property
    def complete(self) -> bool:
        """Whether forward ran to its end."""
        return self.error is None and self.graph is not None

    @property
    def nodes(self) -> list[Node]:
        """The current nodes; the same list until a node is added."""
        graph = self.graph
        if graph is None:
            return []
        if (len(self._nodes), self._nodes[-1:]) != (graph._len, [graph._root._prev]):
            self._nodes = list(graph.nodes)
        return self._nodes

    def add(self, code: str, place: Place | None, message: str = "", **facts: Any) -> Finding:
        """Record a problem; see `Findings.add`."""
        return self.findings.add(code, place, message, corrections=self.course.corrections, **facts)

    def bake(self, span: Span, text: str, value: Any) -> None:
        """Record that the current value becomes a constant of the graph."""
        self.notes.baked.setdefault(span, Baked(span, text, show(value)))

    # --- places -------------------------------------------------------------------------------------------------------

    def place(self, value: Any = None) -> Place | None:
        """The user's current place, refined by the probe that has just seen ``value``."""
        return self.place_at(self.tracer.current_site(), self.probe_of(value))

    def place_at(self, site: Site | None, probe: Probe | None = None) -> Place | None:
        """The place of a site, such as a node's."""
        return place_of(site, self.subject.instrumentation.original, probe)

    def place_of_node(self, node: Node) -> Place | None:
        return self.place_at(node._site)

    def place_of_probe(self, probe: Probe) -> Place:
        """The place of the probe that is reporting."""
        site = self.tracer.current_site()
        found = self.place_at(site, probe)
        return found if found is not None else Place(probe.span, probe.node, site, (probe.span,))

    def probe_of(self, value: Any) -> Probe | None:
        """The probe that saw ``value`` last, if no other probe of a question has reported since."""
        return self.asking[0] if self.asking is not None and self.asking[1] is value else None

    def catcher(self, place: Place, error: type[BaseException] | None) -> Any:
        """The user's own handler that would swallow ``error`` raised at ``place``; see `catcher`."""
        return catcher(place, error, self.subject.instrumentation.original)

    def module(self, node: Node) -> Any:
        """The module that a node calls; None if it no longer exists."""
        target = str(node.target)
        if target not in self._modules:
            try:
                self._modules[target] = submodule(*self.tracer.holder(target))
            except AttributeError:
                self._modules[target] = None
        return self._modules[target]

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> Any:
        """A proxy's value on the example inputs; other values are returned unchanged."""
        if not isinstance(value, Proxy):
            return value
        node = value.node
        if node not in self.values.known:
            with self.aside():
                self.values.upto(node)
        return self.values.known.get(node, UNKNOWN)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Run code outside of the user's model, without patches and probes."""
        before, self.quiet = self.quiet, True
        _fake_tensor_log.disabled = True
        try:
            with wrapping.patches_reverted():
                yield
        finally:
            self.quiet = before
            _fake_tensor_log.disabled = False


def guarded(detector: Callable[..., None], *args: Any) -> None:
    """Run a detector. Its exceptions are bugs of ours and must not be attributed to the user's code; tests raise
    them."""
    try:
        detector(*args)
    except Exception:
        if STRICT:
            raise
        log.exception("the detector %s failed; its findings are missing", getattr(detector, "__name__", detector))
