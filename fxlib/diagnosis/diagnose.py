"""The entry: `diagnose` searches for problems, checks whether torch.fx itself would trace, and makes the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any

from torch import nn

from fxlib.codegen.function import _PyTreeCodeGen, surely_compiles
from fxlib.codegen.graph_module import GraphModule, own_name
from fxlib.codegen.roots import attribute_targets
from fxlib.diagnosis.comparison.doubt import doubtful
from fxlib.diagnosis.detectors import AT_PROBES, LAST, LOOKERS, ON_GRAPH
from fxlib.diagnosis.detectors.opaque import doubts_of
from fxlib.diagnosis.engine.coverage import taken, untaken
from fxlib.diagnosis.engine.eager_path import EagerPath
from fxlib.diagnosis.engine.findings import Findings
from fxlib.diagnosis.engine.packages import PACKAGE_FUNCTION, is_installed
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.raised import text_of
from fxlib.diagnosis.engine.run import Run, guarded
from fxlib.diagnosis.engine.search import Limits, Search
from fxlib.diagnosis.engine.subject import Subject
from fxlib.diagnosis.engine.tracers import StrictTracer
from fxlib.diagnosis.engine.values import Unknown
from fxlib.diagnosis.report import Finding, Report
from fxlib.ir.graph import Graph
from fxlib.ir.span import Span, resolve

__all__ = ["diagnose", "graph_of"]

_LIMITS = Limits()


def diagnose(
    root: nn.Module | Any,
    example_inputs: Any = None,
    *,
    concrete_args: Mapping[str, Any] | None = None,
    leaf_modules: Iterable[str] = (),
    tracer: Callable[[], Any] | None = None,
) -> Report:
    """Find all problems that keep ``root`` from being traced, and all that make its trace silently wrong.

    Forward runs on proxies without data, several times if necessary. If the code needs a value that torch.fx refuses
    to give, this is recorded, and the trace continues with the answer that follows from the shapes and types of
    ``example_inputs``, or with both answers. ``root`` is not changed.

    Args:
        root: a module, or a function of tensors.
        example_inputs: the positional arguments of forward as a tuple, a single tensor, or a dict of keyword
            arguments. Only shapes, dtypes and plain values are used; tensors may be on the meta device.
        concrete_args: as in `fxlib.symbolic_trace`.
        leaf_modules: paths or (ends of qualified) class names, ``"blocks.0"`` or ``"Attention"``, to keep as leaves.
        tracer: a callable that makes the tracer to use instead of `fxlib.Tracer`, such as a subclass of it or of
            `torch.fx.Tracer`. Each trace gets a new one.

    Returns:
        A `Report`. ``report.graph_module`` is not None exactly when torch.fx, or the ``tracer``, traces ``root``.

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
    concrete = dict(concrete_args) if isinstance(concrete_args, Mapping) else concrete_args
    subject = Subject.of(root, example_inputs, concrete, leaf_modules, LOOKERS, tracer)
    marks = [start, time.perf_counter()]
    try:
        search = Search(subject, AT_PROBES)
        search.explore(_LIMITS)
        marks.append(time.perf_counter())
        for detector in (*ON_GRAPH, *LAST):
            guarded(detector, search)
        marks.append(time.perf_counter())
        EagerPath(search).explore(ON_GRAPH)
        marks.append(time.perf_counter())
        report = _report(search)
    finally:
        subject.snapshot.restore()
    names = ("instrument", "trace", "detect", "eager_path")
    report.timings = {name: (b - a) * 1e3 for name, a, b in zip(names, marks, marks[1:], strict=False)}
    report.timings["total"] = (time.perf_counter() - start) * 1e3
    return report


def graph_of(root: nn.Module) -> Graph | None:
    """The graph of `diagnose` without example inputs, but faster, since it searches for no problems. ``root`` is not
    changed."""
    subject = Subject.of(root, None, None, (), LOOKERS, None)
    try:
        search = Search(subject, AT_PROBES)
        search.explore(replace(_LIMITS, enough=True))
        return search.best.graph
    finally:
        subject.snapshot.restore()


def _report(search: Search) -> Report:
    """Trace strictly if in doubt, make the graph module, and sort the findings."""
    report = Report()
    subject, run, found = search.subject, search.best, search.findings
    loud = [finding for finding in found if finding.loud]
    own = subject.own_tracer
    tracer: Any = None if loud or own is not None or not run.complete else run.tracer
    graph = run.graph
    if tracer is None:
        subject.snapshot.restore()
        tracer = StrictTracer(subject.leaves) if own is None else own()
        try:
            graph = _traced(tracer, subject)
            for finding in loud:
                found.remove(finding)
        except Exception as error:
            report.error = _described(error)
            if own is not None and not loud:
                message = f"The tracer of the project, {type(tracer).__name__}, raises {': '.join(report.error)}"
                found.add("FX199", search.root_class(), message, error=error)
            tracer = None
    if graph is run.graph:
        report._annotate = partial(_annotate, run)
        report._returned = partial(_returned, run)
    elif own is not None and tracer is not None:
        report._annotate = partial(_annotate_by_name, run)
    report._graph = graph
    name = None if graph is None else own_name(attribute_targets(graph))
    if name is not None:
        message = f"The traced model cannot hold `{name}`, since torch.fx's GraphModule has an attribute of that name"
        # What torch.fx says depends on the name and the kind of attribute; it may fail as late as the module runs.
        found.replace(found.add("FX191", search.root_class(), message), related=())
        if report.error is None:
            report.error = ("TypeError", message)
    elif tracer is not None and graph is not None and _unpacks_defaults(graph):
        report.error = ("SyntaxError", "invalid syntax")
        message = (
            "The code that torch.fx generates for these concrete arguments does not compile: it unpacks arguments "
        )
        found.add("FX199", search.root_class(), f"{message}with their defaults", error=": ".join(report.error))
    elif tracer is not None and graph is not None:
        report.traces, report._make = True, partial(_module, tracer.root, subject.name, tracer.root.training)
        constants = getattr(tracer, "tensor_attrs", {})
        sure = surely_compiles(graph) or graph.python_code("self")._deferrable
        if constants or subject.snapshot.differs() or not sure:
            # Without the attributes that forward has set on the module, and whether the code is certain to compile.
            _put_constants(tracer.root, constants)
            try:
                assert report.graph_module is not None
            except SyntaxError as error:
                # With some concrete arguments no code can be generated, as in torch.fx.
                report.traces, report.error = False, _described(error)
                if not any(finding.code == "FX239" for finding in found):
                    found.add("FX199", None, f"The generated code does not compile: {error}", error=error)
    report.taken = taken(subject.instrumentation.probes, search.reached)
    report.untaken = untaken(subject.instrumentation.probes, search.reached, search.deciding)
    code = subject.instrumentation
    report._doubt = lambda: run.notes.unseen or doubtful(subject.root, code.functions, code.own_code)
    report.mutations = run.notes.mutations
    report._doubts = partial(doubts_of, run.notes.hidden)
    report.baked = list(run.notes.baked.values())
    report.findings = sorted(_once_for_each_module(_without_explained(found), found), key=_order)
    return report


def _unpacks_defaults(graph: Graph) -> bool:
    """Whether collections among the concrete arguments make torch.fx, but not fxlib, write code that is no Python."""
    defaults = any(node._args and node.type is None for node in graph.find_nodes(op="placeholder"))
    return defaults and isinstance(graph._codegen, _PyTreeCodeGen)


def _traced(tracer: Any, subject: Subject) -> Graph:
    """The graph of a strict trace, as an fxlib graph."""
    given = () if subject.concrete_args is None else (subject.concrete_args,)
    graph = tracer.trace(subject.root, *given)
    if isinstance(graph, Graph):
        return graph
    from fxlib.interop import from_torch_graph

    return from_torch_graph(graph)


def _returned(run: Run) -> dict[str, list[tuple[Span, Any]]]:
    found: dict[str, list[tuple[Span, Any]]] = {}
    for last, site, nodes in run.tracer.returned:
        if (span := resolve(site)) is not None:
            found.setdefault(last.name, []).append((span, _named(nodes)))
    return found


def _named(nodes: Any) -> Any:
    """The names of nodes, nested in lists and dicts as they are."""
    if isinstance(nodes, list):
        return [_named(each) for each in nodes]
    if isinstance(nodes, dict):
        return {key: _named(each) for key, each in nodes.items()}
    return None if nodes is None else nodes.name


def _described(error: Exception) -> tuple[str, str]:
    return type(error).__name__, text_of(error).split("\n", 1)[0]


def _without_explained(found: Iterable[Finding]) -> list[Finding]:
    """The findings without silent ones inside a package's call that does not trace, since its fix also fixes them."""
    failing = {each.span for each in found if each.code == PACKAGE_FUNCTION and each.loud}
    return [each for each in found if each.loud or not each.inside or each.span not in failing]


def _once_for_each_module(kept: list[Finding], found: Findings) -> list[Finding]:
    """The findings, but of several in a module of an installed package only the first for each call: making that module
    a leaf fixes them all, and its code is not the user's to change."""
    seen: set[tuple[Span, CodeType]] = set()
    result = []
    for each in kept:
        place = found.place_of(each)
        key = None if not each.loud or place is None else _module_of_package(place)
        if key is None or key not in seen:
            result.append(each)
        if key is not None:
            seen.add(key)
    return result


def _module_of_package(place: Place) -> tuple[Span, CodeType] | None:
    """The user's call that leads into a forward of an installed package, and the innermost such forward."""
    site, forward = place.site, None
    while site is not None and is_installed(site[0].co_filename):
        if forward is None and site[0].co_name == "forward":
            forward = site[0]
        site = site[2]
    span = resolve(site) if forward is not None else None
    return None if span is None or forward is None else (span, forward)


def _put_constants(root: Any, constants: Mapping[Any, str]) -> None:
    """Put the constants of a trace back on its root, since restoring the module removed them."""
    for value, path in constants.items():
        if "." not in path and not hasattr(root, path):
            setattr(root, path, value)


def _module(root: Any, name: str, training: bool, graph: Graph) -> GraphModule:
    made = GraphModule(root, graph, name)
    made.training = training
    return made


def _annotate(run: Run, graph: Graph) -> None:
    """Values of the nodes as ``meta["val"]``: `TensorMeta` for tensors, plain values for the rest."""
    for node in graph.nodes:
        value = run.values.known.get(node)
        if value is not None and type(value) is not Unknown:
            node.meta["val"] = value


def _annotate_by_name(run: Run, graph: Graph) -> None:
    """Copy source places and values from our nodes to the same nodes of another tracer's graph, which has none."""
    known = {node.name: node for node in run.nodes}
    for own in graph.nodes:
        node = known.get(own.name)
        if node is None or (node.op, node.target) != (own.op, own.target):
            continue
        own._site = own._site or node._site
        value = run.values.known.get(node)
        if value is not None and type(value) is not Unknown:
            own.meta.setdefault("val", value)


def _order(finding: Finding) -> tuple[Any, ...]:
    span = finding.span
    return (span is None, *(span or ()), finding.code)
