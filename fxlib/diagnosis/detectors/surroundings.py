"""What surrounds the recorded operations and is not recorded: modes, contexts, handlers, random draws."""

from __future__ import annotations

import ast
import random
import sys
import time
from typing import Any

import torch
from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine import source
from fxlib.diagnosis.engine.instrument import Probe
from fxlib.diagnosis.engine.place import Place, raises_again
from fxlib.diagnosis.engine.session import Session
from fxlib.diagnosis.engine.source import span_of, text_of
from fxlib.diagnosis.engine.values import show
from fxlib.diagnosis.report import Baked, Related
from fxlib.ir import span as spans
from fxlib.ir.arguments import map_aggregate
from fxlib.ir.node import map_arg
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta

__all__ = ["AFTER", "AT_PROBES"]

_GRAD = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
_MODE_SECONDS = 1.0
_RANDOM_OWNERS = ("random", "numpy.random", "torch")


def _bake(session: Session, span: Span, text: str, value: Any) -> None:
    session.state.setdefault("baked", {}).setdefault(span, Baked(span, text, show(value)))


def random_draw(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX206: a random function gave a real value."""
    if isinstance(value, Proxy) or (value is None and not isinstance(probe.node.func, ast.Attribute)):
        return
    frame = session.frame()
    function = session.constant(probe.node.func, frame)
    owner = getattr(function, "__self__", None)
    home = getattr(function, "__module__", None) or type(owner).__module__
    random_module = (
        isinstance(owner, random.Random)
        or home.startswith(_RANDOM_OWNERS)
        or type(owner).__name__
        in (
            "RandomState",
            "Generator",
        )
    )
    drawn_in_place = isinstance(value, torch.Tensor) and isinstance(owner, torch.Tensor)
    if not random_module and not drawn_in_place and function is not None:
        return
    if function is None and not isinstance(value, torch.Tensor):
        return
    place = session.place_of_probe(probe)
    session.add("FX206", place, "it is drawn once, while tracing, and stays the same in every call of the graph")
    shown = TensorMeta.of(value) if isinstance(value, torch.Tensor) else value
    _bake(session, probe.span, text_of(probe.node), shown)


def unseen_draw(session: Session, state: Any, problem: str | None) -> None:
    """FX206 without a place: the generators have moved, in code that could not be listened to."""
    found = any(code == "FX206" or finding.loud for (code, _), finding in session.findings.items())
    if session.complete and not found and state.drew_random():
        session.add("FX206", None, "the state of a random generator changed during the trace; the place is not known")


def training(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """Reads of ``training``, judged by `other_mode` when the trace is over."""
    if isinstance(value, bool):
        session.state.setdefault("training", {}).setdefault(probe.span, session.place_of_probe(probe))
        _bake(session, probe.span, text_of(probe.node), value)


def other_mode(session: Session, state: Any, problem: str | None) -> None:
    """FX207: a second trace in the other mode differs."""
    reads: dict[Span, Place] = session.state.get("training", {})
    root = session.root
    if not reads or not isinstance(root, nn.Module) or session.graph is None:
        return
    modes = [(module, module.training) for module in root.modules()]
    graph = session.graph
    try:
        state.restore()
        for module, mode in modes:
            module.training = not mode
        other = session.once_more()
    finally:
        for module, mode in modes:
            module.training = mode
        state.restore()
    if other is None:
        return
    here, there = _signature(graph), _signature(other)
    if here == there:
        return
    rows = zip(graph.nodes, other.nodes, here, there, strict=False)
    pair = next(((_row(a), _row(b)) for a, b, one, two in rows if one != two), None)
    text = f"{pair[0]} here, {pair[1]} there" if pair else f"{len(here)} and {len(there)} nodes"
    fixed = "training" if root.training else "evaluation"
    for place in _decisive(session, state, reads, here):
        note = Related(f"the trace in the other mode differs: {text}", None, "value")
        session.add("FX207", place, f"the graph is fixed in {fixed} mode", related=(note,))


def _decisive(session: Session, state: Any, reads: dict[Span, Place], here: list[str]) -> list[Place]:
    """The reads of ``training`` that change the graph when they alone are answered otherwise; all where none does, or
    where there is no time to try."""
    if len(reads) == 1:
        return list(reads.values())
    decisive = []
    end = time.thread_time() + _MODE_SECONDS
    try:
        for span, place in reads.items():
            other = None
            if time.thread_time() < end:
                session.flipped = span
                other = session.once_more()
                state.restore()
            if other is None or _signature(other) != here:
                decisive.append(place)
    finally:
        session.flipped = None
    return decisive or list(reads.values())


def _signature(graph: Any) -> list[str]:
    """What two graphs are compared by. To functions of layers 0 and 0.0 are the same (a rate, say); elsewhere they may
    make another dtype."""
    rows = []
    for node in graph.nodes:
        arguments = (node.args, node.kwargs)
        if getattr(node.target, "__module__", None) in ("torch.nn.functional", "torch._C._nn"):
            arguments = map_aggregate(arguments, lambda item: float(item) if type(item) is int else item)
        rows.append(_row(node, arguments))
    return rows


def _row(node: Any, arguments: Any = None) -> str:
    args, kwargs = arguments or (node.args, node.kwargs)
    return (
        f"{node.op} {node.target if isinstance(node.target, str) else node._pretty_print_target(node.target)}"
        f" {args} {kwargs}"
    )


def none_matters(session: Session, state: Any, problem: str | None) -> None:
    """FX201 where the graph is the same with and without the argument: worth knowing, but no warning."""
    doubtful = [f for f in session.findings.values() if f.code == "FX201" and f.severity == "warning"]
    if not doubtful or not session.complete or session.graph is None:
        return
    if any(finding.loud for finding in session.findings.values()) or isinstance(session.concrete_args, tuple):
        return
    for argument in {str(finding.data["argument"]) for finding in doubtful if finding.data.get("argument")}:
        state.restore()
        other = session.once_more({argument: None})
        state.restore()
        if other is not None and _rows(session.graph, argument) == _rows(other, argument):
            for finding in doubtful:
                if finding.data.get("argument") == argument:
                    finding.severity = "info"
                    finding.message += "; the graph is the same either way"


def _rows(graph: Any, argument: str) -> list[tuple[str, str, str, str]]:
    """What a graph does when ``argument`` is None, whatever its placeholder is called."""
    names: dict[Any, Any] = {}
    rows = []
    for node in graph.nodes:
        if node.op == "placeholder":
            own = node.target == argument or str(node.target).rpartition("_")[0] == argument
            names[node] = None if own else node.target
        elif getattr(node.target, "__name__", "") != "_assert_is_none":
            args, kwargs = (map_arg(part, lambda used: names.get(used)) for part in (node.args, node.kwargs))
            rows.append((node.op, str(node.target), repr(args), repr(kwargs)))
            names[node] = f"%{len(rows)}"
    return rows


def context(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """Contexts entered, judged by `lost_contexts`."""
    code = "FX212" if isinstance(value, _GRAD) else "FX213" if isinstance(value, torch.autocast) else None
    if code is not None:
        block = probe.node.parent.parent
        region = Span(probe.file, block.lineno, block.col_offset, block.end_lineno, block.end_col_offset)
        session.state.setdefault("regions", {})[probe.span] = (code, session.place_of_probe(probe), region)


def checkpointed(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """Calls of torch's checkpoint, judged by `lost_contexts`."""
    if (getattr(value, "__module__", None) or "").startswith("torch.utils.checkpoint"):
        _whole_call(session, probe, "FX214", probe.node.parent)


def applied(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """Calls of a custom autograd.Function, judged by `lost_contexts`."""
    if isinstance(value, type) and issubclass(value, torch.autograd.Function):
        _whole_call(session, probe, "FX221", probe.node.parent.parent)


def _whole_call(session: Session, probe: Probe, code: str, call: Any) -> None:
    place = session.place_of_probe(probe)
    span = span_of(call, probe.file)
    whole = place.widened(span, call)
    session.state.setdefault("regions", {})[span] = (code, whole, span)


def lost_contexts(session: Session, state: Any, problem: str | None) -> None:
    """FX212, FX213, FX214, FX221: nodes were recorded inside."""
    regions = session.state.get("regions", {})
    regions.update(_decorated(session))
    if not regions or session.graph is None:
        return
    paths = [(node, spans.call_path(node._site)) for node in session.graph.nodes if node._site is not None]
    for code, place, region in regions.values():
        for node, path in paths:
            if any(_inside(step, region) for step in path):
                session.add(code, place, "operations inside are recorded without it", node=node.name)
                break


def _inside(span: Span, region: Span) -> bool:
    if span.file != region.file:
        return False
    start, end = (region.line, region.column), (region.end_line, region.end_column)
    return start <= (span.line, span.column) and (span.end_line, span.end_column) <= end


def _decorated(session: Session) -> dict[Span, tuple[str, Place, Span]]:
    """Functions under a decorator that is such a context."""
    found = {}
    for function in session.instrumentation.functions:
        code = session.instrumentation.original.get(function.__code__, function.__code__)
        tree = source.function_tree(code)
        if tree is None:
            continue
        for decorator in tree.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            parts = text_of(target).split(".")
            value: Any = function.__globals__.get(parts[0])
            for part in parts[1:]:
                value = getattr(value, part, None)
            rule = "FX212" if value in _GRAD else "FX213" if value is torch.autocast else None
            if rule is not None:
                span = span_of(decorator, code.co_filename)
                region = span_of(tree, code.co_filename)
                found[span] = (rule, Place(span, decorator, None, (span,)), region)
    return found


def handler(session: Session, probe: Probe, value: Any, _: Any) -> None:
    """FX215: a handler of the user's runs because of a failure of the trace."""
    error = sys.exc_info()[1]
    if error is not None and not raises_again(probe.node):
        session.swallowed(error)


AT_PROBES = {
    "random": random_draw,
    "training": training,
    "context": context,
    "checkpoint": checkpointed,
    "checkpoint_sequential": checkpointed,
    "apply": applied,
    "handler": handler,
}
AFTER = (unseen_draw, lost_contexts, other_mode, none_matters)
ON_GRAPH = (lost_contexts,)
