"""The entry: `diagnose` runs a `Session`, asks what torch.fx itself would say, and writes the report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from fxlib.capture.tracer import Tracer
from fxlib.codegen.graph_module import GraphModule
from fxlib.diagnosis.detectors import AFTER, AT_PROBES, ON_GRAPH
from fxlib.diagnosis.engine import reach
from fxlib.diagnosis.engine.behind import Behind
from fxlib.diagnosis.engine.coverage import untaken
from fxlib.diagnosis.engine.inputs import placeholder_values
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION
from fxlib.diagnosis.engine.session import Session
from fxlib.diagnosis.engine.state import State
from fxlib.diagnosis.engine.tracers import ContinuingTracer, StrictTracer
from fxlib.diagnosis.engine.values import Unknown
from fxlib.diagnosis.report import Finding, Report

__all__ = ["diagnose"]


def diagnose(
    root: nn.Module | Any,
    example_inputs: Any = None,
    *,
    concrete_args: Mapping[str, Any] | None = None,
    leaf_modules: Iterable[str] = (),
) -> Report:
    """Everything that stands in the way of tracing ``root``, and everything that a trace would silently get wrong.

    Forward runs on proxies, several times where needed, on no data: a question that torch.fx refuses is recorded and
    answered from the shapes and types of ``example_inputs``, or both ways. ``root`` is left as it was.

    Args:
        root: a module, or a function of tensors.
        example_inputs: the positional arguments of forward as a tuple (a single tensor will do), or a dict of keyword
            arguments. Only shapes, dtypes and plain values are used; tensors on the meta device are welcome.
        concrete_args: as in `fxlib.symbolic_trace`.
        leaf_modules: paths or (ends of qualified) class names, ``"blocks.0"`` or ``"Attention"``, to keep as leaves.

    Returns:
        A `Report`. ``report.graph_module`` is there exactly when torch.fx traces ``root`` too.

    Raises:
        TypeError: ``root`` is neither a module nor callable.

    >>> import torch, fxlib
    >>> def f(x):
    ...     return x * 2 if x.sum() > 0 else x
    >>> [finding.code for finding in fxlib.diagnose(f, torch.ones(3)).findings]
    ['FX101']
    """
    if not isinstance(root, nn.Module) and not callable(root):
        raise TypeError(f"diagnose: the root must be a torch.nn.Module or a function, not {type(root).__name__}")
    start = time.perf_counter()
    leaves = frozenset(leaf_modules)
    concrete = dict(concrete_args) if isinstance(concrete_args, Mapping) else concrete_args

    def make_tracer() -> ContinuingTracer:
        return ContinuingTracer(leaves)

    judge = make_tracer()
    inputs, problem = placeholder_values(root, example_inputs, concrete)
    functions = reach.reachable(root, judge.is_leaf_module)
    state = State(root, judge.is_leaf_module, functions)
    timings: dict[str, float] = {}
    try:
        instrumentation = Instrumentation(functions)
        timings["instrument"] = (time.perf_counter() - start) * 1e3
        session = Session(root, make_tracer, inputs, instrumentation, AT_PROBES, concrete, state.restore)
        session.explore()
        timings["trace"] = (time.perf_counter() - start) * 1e3 - timings["instrument"]
        report = Report(timings=timings)
        for detector in AFTER:
            session.guarded(detector, session, state, problem)
        mark = time.perf_counter()
        Behind(session, state, ON_GRAPH).explore()
        timings["behind"] = (time.perf_counter() - mark) * 1e3
        _finish(report, session, state, leaves)
    finally:
        state.restore()
    timings["total"] = (time.perf_counter() - start) * 1e3
    return report


def _finish(report: Report, session: Session, state: State, leaves: frozenset[str]) -> None:
    """Judge strictly where there is doubt, make the graph module, and put the findings in order."""
    graph = session.graph
    tracer: Tracer = session.tracer
    loud = [key for key, finding in session.findings.items() if finding.loud]
    doubtful = bool(loud) or not session.complete
    if doubtful:
        state.restore()
        strict = StrictTracer(leaves)
        try:
            graph = strict.trace(session.root, session.concrete_args)
            tracer = strict
            doubtful = False
            for key in loud:
                del session.findings[key]
        except Exception as error:
            report.error = (type(error).__name__, str(error).split("\n", 1)[0])
    report.graph = graph
    if not doubtful and graph is not None:
        name = type(session.root).__name__ if isinstance(session.root, nn.Module) else "function"
        _put_constants(tracer)
        try:
            report.graph_module = GraphModule(tracer.root, graph, name)
            report.graph = report.graph_module.graph
        except SyntaxError as error:
            # Some concrete arguments have no generated code, here as in torch.fx.
            report.error = (type(error).__name__, str(error).split("\n", 1)[0])
            session.add("FX199", None, f"the generated code does not compile: {error}", error=error)
    if graph is session.graph and graph is not None:
        _annotate(report, session)
    probes, reached = session.instrumentation.probes, session.reached
    report.untaken = untaken(probes, reached, session.deciding)
    report.mutations = session.state.get("mutations", [])
    report.baked = list(session.state.get("baked", {}).values())
    report.findings = sorted(_without_explained(session), key=_order)


def _without_explained(session: Session) -> list[Finding]:
    """The findings, without silent ones inside a call of an installed package that does not trace: its mending is
    theirs."""
    found = list(session.findings.values())
    failing = {each.span for each in found if each.code == PACKAGE_FUNCTION and each.loud}
    return [each for each in found if each.loud or not each.inside or each.span not in failing]


def _put_constants(tracer: Tracer) -> None:
    """The constants of a trace, back on its root: restoring the module has taken them away."""
    for value, path in getattr(tracer, "tensor_attrs", {}).items():
        if "." not in path and not hasattr(tracer.root, path):
            setattr(tracer.root, path, value)


def _annotate(report: Report, session: Session) -> None:
    """Values of the nodes as ``meta["val"]``: `TensorMeta` for tensors, plain values for the rest."""
    assert session.graph is not None and report.graph is not None
    for node, own in zip(session.graph.nodes, report.graph.nodes, strict=False):
        value = session.values.known.get(node)
        if value is not None and type(value) is not Unknown:
            own.meta["val"] = value


def _order(finding: Finding) -> tuple[Any, ...]:
    span = finding.span
    return (span is None, *(span or ()), finding.code)
