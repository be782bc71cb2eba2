"""What surrounds the recorded operations and is not recorded: modes, contexts, handlers, random draws."""

from __future__ import annotations

import ast
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.errors import swallowed
from fxlib.diagnosis.engine.forms import raises_again
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Region, Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.trees import function_tree, span_of, text_of
from fxlib.diagnosis.engine.values import show
from fxlib.diagnosis.report import Baked, Related
from fxlib.ir import span as spans
from fxlib.ir.arguments import map_aggregate
from fxlib.ir.node import map_arg
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]

_GRAD = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
_MODE_SECONDS = 1.0
_RANDOM = {
    "rand", "randn", "randint", "randperm", "random", "uniform", "normal", "normalvariate", "gauss", "choice",
    "choices", "sample", "shuffle", "bernoulli", "multinomial", "poisson", "standard_normal", "random_sample",
    "permutation", "betavariate", "expovariate", "triangular", "getrandbits", "randrange", "rand_like",
    "normal_", "uniform_", "bernoulli_", "random_", "exponential_", "cauchy_", "geometric_", "log_normal_",
}  # fmt: skip
_RANDOM_OWNERS = ("random", "numpy.random", "torch")


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name in _RANDOM:
        found.append(("random", node))
    elif name in ("checkpoint", "checkpoint_sequential"):
        found.append((name, function))
    elif name == "apply" and isinstance(function, ast.Attribute):
        found.append(("apply", function.value))


def _look_attribute(node: ast.Attribute, found: Found) -> None:
    if node.attr == "training" and isinstance(node.ctx, ast.Load):
        found.append(("training", node))


def _look_with(node: Any, found: Found) -> None:
    found.extend(("context", item.context_expr) for item in node.items)


def _bake(run: Run, span: Span, text: str, value: Any) -> None:
    run.notes.baked.setdefault(span, Baked(span, text, show(value)))


def random_draw(run: Run, probe: Probe, value: Any) -> None:
    """FX206: a random function gave a real value."""
    if isinstance(value, Proxy) or (value is None and not isinstance(probe.node.func, ast.Attribute)):
        return
    function = constant(probe.node.func, users_frame())
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
    place = run.place_of_probe(probe)
    run.add("FX206", place, "it is drawn once, while tracing, and stays the same in every call of the graph")
    shown = TensorMeta.of(value) if isinstance(value, torch.Tensor) else value
    _bake(run, probe.span, text_of(probe.node), shown)


def unseen_draw(search: Search) -> None:
    """FX206 without a place: the generators have moved, in code that could not be listened to."""
    run = search.best
    found = any(each.code == "FX206" or each.loud for each in run.findings)
    if run.complete and not found and search.subject.snapshot.drew_random():
        run.add("FX206", None, "the state of a random generator changed during the trace; the place is not known")


def training(run: Run, probe: Probe, value: Any) -> None:
    """Reads of ``training``, judged by `other_mode` when the trace is over."""
    if isinstance(value, bool):
        run.notes.training.setdefault(probe.span, run.place_of_probe(probe))
        _bake(run, probe.span, text_of(probe.node), value)


def other_mode(search: Search) -> None:
    """FX207: a second trace in the other mode differs."""
    run, root, snapshot = search.best, search.subject.root, search.subject.snapshot
    reads = run.notes.training
    if not reads or not isinstance(root, nn.Module) or run.graph is None:
        return
    modes = [(module, module.training) for module in root.modules()]
    try:
        snapshot.restore()
        for module, mode in modes:
            module.training = not mode
        other = search.once_more()
    finally:
        for module, mode in modes:
            module.training = mode
        snapshot.restore()
    if other is None:
        return
    here, there = _signature(run.graph), _signature(other)
    if here == there:
        return
    rows = zip(run.graph.nodes, other.nodes, here, there, strict=False)
    pair = next(((_row(a), _row(b)) for a, b, one, two in rows if one != two), None)
    text = f"{pair[0]} here, {pair[1]} there" if pair else f"{len(here)} and {len(there)} nodes"
    fixed = "training" if root.training else "evaluation"
    for place in _decisive(search, reads, here):
        note = Related(f"the trace in the other mode differs: {text}", None, "value")
        run.add("FX207", place, f"the graph is fixed in {fixed} mode", related=(note,))


def _decisive(search: Search, reads: dict[Span, Place], here: list[str]) -> list[Place]:
    """The reads of ``training`` that change the graph when they alone are answered otherwise; all where none does, or
    where there is no time to try."""
    if len(reads) == 1:
        return list(reads.values())
    decisive = []
    end = time.thread_time() + _MODE_SECONDS
    for span, place in reads.items():
        other = None
        if time.thread_time() < end:
            other = search.once_more(flipped=span)
            search.subject.snapshot.restore()
        if other is None or _signature(other) != here:
            decisive.append(place)
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


def none_matters(search: Search) -> None:
    """FX201 where the graph is the same with and without the argument: worth knowing, but no warning."""
    run, snapshot = search.best, search.subject.snapshot
    doubtful = [each for each in run.findings if each.code == "FX201" and each.severity == "warning"]
    if not doubtful or not run.complete or run.graph is None:
        return
    concrete = run.course.concrete_args
    if any(finding.loud for finding in run.findings) or isinstance(concrete, tuple):
        return
    for argument in {str(finding.data["argument"]) for finding in doubtful if finding.data.get("argument")}:
        snapshot.restore()
        other = search.once_more(concrete_args={**(concrete or {}), argument: None})
        snapshot.restore()
        if other is not None and _rows(run.graph, argument) == _rows(other, argument):
            for finding in doubtful:
                if finding.data.get("argument") == argument:
                    message = f"{finding.message}; the graph is the same either way"
                    run.findings.replace(finding, severity="info", message=message)


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


def context(run: Run, probe: Probe, value: Any) -> None:
    """Contexts entered, judged by `lost_contexts`."""
    code = "FX212" if isinstance(value, _GRAD) else "FX213" if isinstance(value, torch.autocast) else None
    if code is not None:
        block = span_of(probe.node.parent.parent, probe.file)
        run.notes.regions[probe.span] = Region(code, run.place_of_probe(probe), block)


def checkpointed(run: Run, probe: Probe, value: Any) -> None:
    """Calls of torch's checkpoint, judged by `lost_contexts`."""
    if (getattr(value, "__module__", None) or "").startswith("torch.utils.checkpoint"):
        _whole_call(run, probe, "FX214", probe.node.parent)


def applied(run: Run, probe: Probe, value: Any) -> None:
    """Calls of a custom autograd.Function, judged by `lost_contexts`."""
    if isinstance(value, type) and issubclass(value, torch.autograd.Function):
        _whole_call(run, probe, "FX221", probe.node.parent.parent)


def _whole_call(run: Run, probe: Probe, code: str, call: Any) -> None:
    whole = run.place_of_probe(probe).widened(call)
    run.notes.regions[whole.span] = Region(code, whole, whole.span)


def lost_contexts(search: Search) -> None:
    """FX212, FX213, FX214, FX221: nodes were recorded inside."""
    run = search.best
    regions = [*run.notes.regions.values(), *_decorated(search.subject.instrumentation)]
    if not regions:
        return
    paths = [(node, spans.call_path(node._site)) for node in run.nodes if node._site is not None]
    for region in regions:
        inside = (node for node, path in paths if any(within(step, region.span) for step in path))
        first = next(inside, None)
        if first is not None:
            run.add(region.code, region.place, "operations inside are recorded without it", node=first.name)


def _decorated(instrumentation: Instrumentation) -> Iterator[Region]:
    """Functions under a decorator that is such a context."""
    for function in instrumentation.functions:
        code = instrumentation.own_code(function)
        tree = function_tree(code)
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
                yield Region(rule, Place(span, decorator, None, (span,)), span_of(tree, code.co_filename))


def handler(run: Run, probe: Probe, value: Any) -> None:
    """FX215: a handler of the user's runs because of a failure of the trace."""
    error = sys.exc_info()[1]
    if error is not None and not raises_again(probe.node):
        swallowed(run, error)


AT_PROBES = {
    "random": random_draw,
    "training": training,
    "context": context,
    "checkpoint": checkpointed,
    "checkpoint_sequential": checkpointed,
    "apply": applied,
    "handler": handler,
}
LOOKERS: Lookers = {ast.Call: [_look_call], ast.Attribute: [_look_attribute], ast.With: [_look_with]}
ON_GRAPH = (lost_contexts,)
LAST = (unseen_draw, other_mode, none_matters)
