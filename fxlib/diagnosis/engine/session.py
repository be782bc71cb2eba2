"""One diagnosis: run forward on proxies as often as it takes, and note every question and failure on the way.

A run goes on past a question that torch.fx refuses: `fxlib.diagnosis.questions` answers it. What fails with an
exception is cut out of the function's code and the run is repeated; `fxlib.diagnosis.cuts` puts a value in its place.
"""

from __future__ import annotations

import ast
import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from fxlib.capture import wrapping
from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine import place as places
from fxlib.diagnosis.engine import source
from fxlib.diagnosis.engine.cuts import Cuts, prepare
from fxlib.diagnosis.engine.failures import Failure, about_tracing, rule_of
from fxlib.diagnosis.engine.instrument import Instrumentation, Probe
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION, is_installed, package_of, short_path
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.questions import Questions
from fxlib.diagnosis.engine.tracers import ContinuingTracer
from fxlib.diagnosis.engine.values import UNKNOWN, Values, show
from fxlib.diagnosis.report import Finding, Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir import span as spans
from fxlib.ir.graph import Graph
from fxlib.ir.span import Span

if TYPE_CHECKING:
    from fxlib.diagnosis.engine.behind import Behind

__all__ = ["Session"]

log = logging.getLogger(__name__)
# Torch reports there whatever its shape functions refuse, with a traceback; it becomes a finding here.
_fake_tensor_log = logging.getLogger("torch._subclasses.fake_tensor")
_RUNS = 48
_EXPLORING_RUNS = 8
# Of the processor, and of the clock: a busy machine does not cut a diagnosis short, and a forward that sleeps does not
# use up the time that its process has.
_SECONDS = 3.0
_PATIENCE = 6.0


class Session:
    """The runs of one diagnosis and what they found.

    ``detectors`` get each probe's value by kind; see `fxlib.diagnosis.detectors`. After `explore`, ``tracer`` and
    ``graph`` are those of the run that got furthest, and ``complete`` says whether it reached the end of forward.
    """

    def __init__(
        self,
        root: Any,
        make_tracer: Callable[[], ContinuingTracer],
        inputs: dict[str, Any],
        instrumentation: Instrumentation,
        detectors: dict[str, Callable[[Session, Probe, Any, Place | None], None]],
        concrete_args: dict[str, Any] | None = None,
        restore: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self.make_tracer = make_tracer
        self.inputs = inputs
        self.instrumentation = instrumentation
        self.detectors = detectors
        self.concrete_args = concrete_args
        self.restore = restore
        self.findings: dict[tuple[str, Any], Finding] = {}
        self.places: dict[tuple[str, Any], Place] = {}
        self.reached: set[tuple[CodeType, int, str]] = set()
        self.deciding: dict[int, str] = {}
        self.tracer: ContinuingTracer = make_tracer()
        self.graph: Graph | None = None
        self.values = Values(self.tracer, inputs)
        self.complete = False
        self.state: dict[str, Any] = {}
        self.questions = Questions(self)
        self.cuts = Cuts(self)
        self.pending: tuple[Probe, Any] | None = None
        self.guessed = False
        self.flipped: Span | None = None
        """Where `training` is answered with its opposite."""
        self.behind: Behind | None = None
        """Set while the runs go the way of a normal run, past the questions that misled the trace."""
        self._quiet = False

    # --- the runs -----------------------------------------------------------------------------------------------------

    def explore(self) -> None:
        """Run until nothing new can be found, within a budget of runs and time."""
        self.search(_RUNS, _EXPLORING_RUNS, _SECONDS, _PATIENCE)

    def search(self, limit: int, exploring_limit: int, seconds: float, patience: float) -> None:
        """Run past failures, then other ways, as often as ``limit`` and ``exploring_limit`` allow."""
        best: tuple[bool, int] = (False, -1)
        best_run: tuple[ContinuingTracer, Graph, Values] | None = None
        used_up, late = time.thread_time() + seconds, time.monotonic() + patience
        exploring = 0
        for number in range(limit):
            error = self._run()
            if error is not None and number == 0 and prepare():
                used_up, late = time.thread_time() + seconds, time.monotonic() + patience
            graph = getattr(self.tracer, "graph", None)
            if graph is not None:
                rank = (error is None, 0 if best_run is not None and error is None and best[0] else len(graph.nodes))
                if rank > best:
                    best, best_run = rank, (self.tracer, graph, self.values)
            progress = error is not None and self._note_failure(error)
            if not progress:
                if not any([self.cuts.turn(), self.questions.turn()]) or exploring >= exploring_limit:
                    break
                exploring += 1
            if time.thread_time() > used_up or time.monotonic() > late:
                break
            self.restore()
        if best_run is not None:
            self.tracer, self.graph, self.values = best_run
        self.complete = best[0]

    def _run(self) -> BaseException | None:
        self.tracer = tracer = self.make_tracer()
        tracer.questions = self.questions
        self.questions.begin()
        self.values = Values(tracer, self.inputs)
        self.pending, self.guessed = None, False
        plain = Proxy.__len__
        Proxy.__len__ = lambda proxy: self.questions.length(proxy, plain)  # type: ignore[method-assign]
        try:
            with self.instrumentation.active(self._listen, self.cuts.fill):
                self.graph = graph = tracer.trace(self.root, self.concrete_args)
            code = self.instrumentation.first_line(graph)
            if code is not None:
                graph._co_fields["co_firstlineno"] = code
        except Exception as error:
            return error
        finally:
            Proxy.__len__ = plain  # type: ignore[method-assign]
        return None

    def once_more(self, concrete_args: dict[str, Any] | None = None) -> Graph | None:
        """One further run whose findings are not kept, with further concrete arguments perhaps; its graph, or None when
        it does not end."""
        given = self.concrete_args
        kept = (self.tracer, self.graph, self.values, dict(self.findings), dict(self.state))
        outcomes = {key: set(seen) for key, seen in self.questions.outcomes.items()}
        reached, deciding = set(self.reached), dict(self.deciding)
        if concrete_args is not None:
            self.concrete_args = {**(given or {}), **concrete_args}
        error = self._run()
        self.concrete_args = given
        graph = self.graph
        self.tracer, self.graph, self.values, self.findings, self.state = kept
        self.questions.outcomes = outcomes
        # What only this run reached is not in the graph, and is shown so.
        self.reached, self.deciding = reached, deciding
        return graph if error is None else None

    def _note_failure(self, error: BaseException) -> bool:
        """Record the failure of a run. True when the next run will get past it."""
        inner = error
        while inner.__context__ is not None and about_tracing(inner.__context__) and not about_tracing(inner):
            inner = inner.__context__
        place = self.place_of_error(inner)
        certain = not self.guessed and self.behind is None
        if not certain and not about_tracing(inner) and not self._reads_proxy(place, inner):
            return False
        if place is None:
            self.add("FX190", self._root_class(), f"{type(inner).__name__}: {_first(inner)}", error=inner)
            return False
        function = self._called(place, inner)
        code = rule_of(Failure(inner, place, function))
        if code == "FX199" and (isinstance(place.node, (ast.Raise, ast.Assert)) or isinstance(inner, AssertionError)):
            code = "FX195" if self._misleading(place) else "FX199"
        self.add(code, place, f"{type(inner).__name__}: {_first(inner)}", error=inner)
        if isinstance(inner, RecursionError):
            return False
        if code == "FX195" and any([self.cuts.cut(test, misled) for misled, test in self._misleading(place)]):
            return True
        if place.caller is not None and self.cuts.cut(place.caller, PACKAGE_FUNCTION):
            return True
        return self.cuts.cut(place, code)

    def _root_class(self) -> Place | None:
        """The class statement of the root, for what fails before any of the user's code runs."""
        kind = type(self.root)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file is None or spans.is_hidden(file):
            return None
        found = source.class_head(file, kind.__name__)
        return None if found is None else Place(found, None, None, (found,))

    def _reads_proxy(self, place: Place | None, error: BaseException) -> bool:
        """Whether the expression that failed has a traced value among its names. A raise of the user's own has not."""
        frame = self._frame_of(error)
        if place is None or place.node is None or frame is None or isinstance(place.node, ast.Raise):
            return False
        if isinstance(error, AssertionError) and not self._misleading(place):
            return False
        names = {node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)}
        return any(wrapping.find_proxy(frame.f_locals[name]) is not None for name in names & frame.f_locals.keys())

    def _called(self, place: Place, error: BaseException) -> Any:
        node = place.node
        if not isinstance(node, ast.Call):
            return None
        frame = self._frame_of(error)
        return None if frame is None else self.constant(node.func, frame)

    def _frame_of(self, error: BaseException) -> Any:
        found = None
        trace = error.__traceback__
        while trace is not None:
            if not spans.is_hidden(trace.tb_frame.f_code.co_filename):
                found = trace.tb_frame
            trace = trace.tb_next
        return found

    def _misleading(self, place: Place) -> list[tuple[str, Place]]:
        """The tests around a raise that a traced value answered otherwise than a real one would."""
        tests: list[Any] = [above.test for above in source.ancestors(place.node) if isinstance(above, ast.If)]
        if isinstance(place.node, (ast.Assert, ast.Call)):
            tests.append(place.node)
        around = [source.span_of(test, place.span.file) for test in tests]
        return [
            (code, self.places[code, span])
            for code, span in self.findings
            if code in _MISLEADING and span is not None and any(within(span, test) for test in around)
        ]

    def swallowed(self, error: BaseException) -> None:
        """Note ``error``, which the user's own handler hides, where it is a failure of the trace."""
        place = None if any(error is known for known in self.questions.noted) else self.place_of_error(error)
        if place is None or ("FX215", place.span) in self.findings:
            return
        rule = rule_of(Failure(error, place, self._called(place, error)))
        if about_tracing(error) or (rule != "FX199" and self._reads_proxy(place, error)):
            self.questions.note_swallowed(place, f"{type(error).__name__}: {_first(error)}", rule)

    def place_of_error(self, error: BaseException) -> Place | None:
        """The user's innermost expression that ``error`` came out of."""
        site: Any = None
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if not spans.is_hidden(code.co_filename):
                site = (code, trace.tb_lasti, site)
            trace = trace.tb_next
        return places.place_of(site, self.instrumentation.original)

    # --- findings -----------------------------------------------------------------------------------------------------

    def add(
        self,
        code: str,
        place: Place | None,
        detail: str,
        *,
        error: BaseException | None = None,
        severity: str | None = None,
        related: tuple[Related, ...] = (),
        node: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> Finding:
        """Record a finding once per rule and expression.

        One in a function of an installed package is put where the user calls it: that is what they can change.
        """
        rule = broken = RULES[code]
        inside = None
        if place is not None and place.caller is not None:
            inside, place = place, place.caller
            if rule.loud:
                title = f"{rule.title[0].lower()}{rule.title[1:]}, `{inside.text}`"
                detail = f"inside {package_of(inside.span.file)}: {title if error is None else detail}"
                rule, code = RULES[PACKAGE_FUNCTION], PACKAGE_FUNCTION
        span = None if place is None else place.span
        known = self.findings.get((code, span))
        if known is not None:
            return known
        notes = list(related)
        if rule.loud:
            said = f"{type(error).__name__}: {_first(error)}" if error else f"TraceError: {broken.torch_text}"
            notes.insert(0, Related(f"torch.fx says: {said}", span if inside is None else inside.span, "torch"))
        path = () if place is None else place.call_path
        notes.extend(Related("on the way from forward", step, "call") for step in path[:-1])
        what = f": `{place.text}`" if place is not None and place.text else ""
        if inside is not None and not rule.loud:
            what = f": `{inside.text}` inside {package_of(inside.span.file)}, called by `{place.text}`"  # type: ignore[union-attr]
            notes.append(Related(f"in {short_path(inside.span.file)}", inside.span))
        elif span is not None and is_installed(span.file) and any(not is_installed(step.file) for step in path):
            what += f" inside {package_of(span.file)}"
        verdict = "torch.fx fails here" if rule.loud else ""
        severity = severity or rule.severity
        hiding = self.behind.hiding(place) if self.behind is not None else None
        if self.behind is not None and hiding is not None:
            when = self.behind.sentence(hiding, place)
            verdict, detail = (f"{when}, {verdict}", detail) if verdict else ("", f"{when}: {detail}")
            notes.append(self.behind.note(hiding))
            # The trace as it is does not fail here; nor need it ever, where nothing has to be mended.
            severity = hiding.severity if severity == "error" else severity
        message = f"{rule.title}{what}. {_sentence('; '.join(part for part in (verdict, detail) if part))}"
        finding = Finding(code, severity, message, span, tuple(notes), path, node, data or {})
        finding.behind = None if hiding is None else hiding.span
        finding.inside = None if inside is None else inside.span
        self.findings[code, span] = finding
        if place is not None:
            self.places[code, span] = place
        return finding

    # --- places and values --------------------------------------------------------------------------------------------

    def place(self, value: Any = None) -> Place | None:
        """Where the user's code is, made exact by the probe that has just seen ``value``."""
        return places.place_of(self.tracer.current_site(), self.instrumentation.original, self.probe_of(value))

    def probe_of(self, value: Any) -> Probe | None:
        """The probe that saw ``value`` last, if that was the last thing that any probe of a question saw."""
        return self.pending[0] if self.pending is not None and self.pending[1] is value else None

    def value(self, value: Any) -> Any:
        """What a proxy stands for on the example inputs; other values are themselves."""
        if not isinstance(value, Proxy):
            return value
        node = value.node
        if node not in self.values.known:
            with self.aside():
                self.values.upto(node)
        return self.values.known.get(node, UNKNOWN)

    def aside(self) -> _Aside:
        """Run code that is not the user's model: unpatched and unobserved."""
        return _Aside(self)

    # --- probes and cuts ----------------------------------------------------------------------------------------------

    def _listen(self, index: int, value: Any) -> Any:
        if self._quiet:
            return value
        probe = self.instrumentation.probes[index]
        kind = probe.kind
        if kind in _ENTRIES:
            self.reached.add((probe.code, id(probe.node), kind))
            if kind != "handler":
                return value
        elif isinstance(value, Proxy):
            if kind in _ASKING:
                self.pending = (probe, value)
        elif kind in ("test", "operand"):
            if index not in self.deciding:
                self.deciding[index] = show(value)
            return value
        if self.flipped is not None and kind == "training" and isinstance(value, bool) and probe.span == self.flipped:
            return not value
        if kind == "context" and isinstance(value, contextlib.suppress):
            return _NotingSuppress(self, value)
        detector = self.detectors.get(kind)
        if detector is not None:
            self.guarded(detector, self, probe, value, None)
        return value

    def guarded(self, detector: Callable[..., None], *args: Any) -> None:
        """Run a detector. What it raises is its own fault, and must not look like the user's."""
        try:
            detector(*args)
        except Exception:
            log.exception("the detector %s failed; its findings are missing", detector.__name__)

    def place_of_probe(self, probe: Probe) -> Place:
        """The place of a probe that reports now."""
        site = self.tracer.current_site()
        found = places.place_of(site, self.instrumentation.original, probe)
        return found if found is not None else Place(probe.span, probe.node, site, (probe.span,))

    def frame(self) -> Any:
        """The user's frame that a probe reports from."""
        frame: Any = sys._getframe(1)
        while frame is not None and spans.is_hidden(frame.f_code.co_filename):
            frame = frame.f_back
        return frame

    def constant(self, node: ast.expr, frame: Any) -> Any:
        """The value of a name or a dotted name in ``frame``; None for other expressions."""
        parts: list[str] = []
        at: Any = node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            return None
        value = frame.f_locals.get(at.id, frame.f_globals.get(at.id, _builtin(at.id)))
        for part in reversed(parts):
            if isinstance(value, Proxy):
                return None
            value = getattr(value, part, None)
        return getattr(value, wrapping._MARK, value) if not isinstance(value, Proxy) else value


class _Aside:
    """See `Session.aside`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.before = False
        self.reverted: Any = None

    def __enter__(self) -> None:
        _fake_tensor_log.disabled = True
        self.before, self.session._quiet = self.session._quiet, True
        self.reverted = wrapping.patches_reverted()
        self.reverted.__enter__()

    def __exit__(self, *exc: object) -> None:
        self.reverted.__exit__(None, None, None)
        self.session._quiet = self.before
        _fake_tensor_log.disabled = False


_MISLEADING = frozenset({"FX201", "FX202", "FX203", "FX204", "FX205", "FX218", "FX231"})


class _NotingSuppress:
    """The user's ``contextlib.suppress``, with an eye on what it swallows."""

    def __init__(self, session: Session, suppress: Any) -> None:
        self.session, self.suppress = session, suppress

    def __enter__(self) -> None:
        return self.suppress.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        swallowed = self.suppress.__exit__(kind, error, trace)
        if swallowed and error is not None:
            self.session.swallowed(error)
        return swallowed


_ENTRIES = frozenset({"enter", "body", "orelse", "rest", "handler"})
_NAMES = frozenset({"forward", "torch", "self"})
_ASKING = frozenset({"test", "iter", "star", "mapping", "unpack"})


def _sentence(text: str) -> str:
    """With a capital, where it begins with a word and not with a name."""
    first = re.match(r"[a-z-]+(?=[ ,'’])", text)
    return text if first is None or first[0] in _NAMES else text[0].upper() + text[1:]


def _first(error: BaseException | None) -> str:
    # The error came out of our proxies; torch.fx has the same by its own name.
    text = str(error).replace("fxlib.proxy.", "torch.fx.proxy.")
    return text.split("\n", 1)[0] if text else ""


def _builtin(name: str) -> Any:
    import builtins

    return getattr(builtins, name, None)
