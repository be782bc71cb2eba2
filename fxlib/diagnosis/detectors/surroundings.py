"""Code around the recorded operations that is not recorded: contexts, handlers, random draws."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine.errors import swallowed
from fxlib.diagnosis.engine.forms import raises_again
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.instrument import Instrumentation
from fxlib.diagnosis.engine.place import Place, within
from fxlib.diagnosis.engine.probes import Found, Lookers, Probe
from fxlib.diagnosis.engine.run import Region, Run
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.tracers import StrictTracer
from fxlib.diagnosis.engine.trees import function_tree, span_of, text_of
from fxlib.ir import span as spans
from fxlib.ir.objects import attribute, home_of
from fxlib.shapes.tensor_meta import described

__all__ = ["AT_PROBES", "LAST", "LOOKERS", "ON_GRAPH"]

_GRAD = (torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode)
_RANDOM = {
    "rand", "randn", "randint", "randperm", "random", "uniform", "normal", "normalvariate", "gauss", "choice",
    "choices", "sample", "shuffle", "bernoulli", "multinomial", "poisson", "standard_normal", "random_sample",
    "permutation", "betavariate", "expovariate", "triangular", "getrandbits", "randrange", "rand_like",
    "randn_like", "randint_like",
    "normal_", "uniform_", "bernoulli_", "random_", "exponential_", "cauchy_", "geometric_", "log_normal_",
}  # fmt: skip
_SEEDS = {"manual_seed", "seed"}
_RANDOM_OWNERS = ("random", "numpy.random", "torch")


def _look_call(node: ast.Call, found: Found) -> None:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name in _RANDOM:
        found.append(("random", node))
    elif name in _SEEDS:
        found.append(("seed", function))
    elif name in ("checkpoint", "checkpoint_sequential"):
        found.append((name, function))
    elif name == "apply" and isinstance(function, ast.Attribute):
        found.append(("apply", function.value))


def _look_with(node: Any, found: Found) -> None:
    found.extend(("context", item.context_expr) for item in node.items)


def random_draw(run: Run, probe: Probe, value: Any) -> None:
    """FX206: a random function returned a real value."""
    if isinstance(value, Proxy) or (value is None and not isinstance(probe.node.func, ast.Attribute)):
        return
    function = constant(probe.node.func, users_frame())
    owner = attribute(function, "__self__")
    home = home_of(function if attribute(function, "__module__") else owner)
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
    run.add("FX206", place)
    shown = described(value)
    run.bake(probe.span, text_of(probe.node), shown)


def seeded(run: Run, probe: Probe, value: Any) -> None:
    """FX232: a generator is seeded by a plain number."""
    if isinstance(value, Proxy):
        return
    owner = attribute(value, "__self__")
    home = home_of(value if attribute(value, "__module__") else owner)
    if isinstance(owner, (random.Random, torch.Generator)) or home.startswith(_RANDOM_OWNERS):
        run.add("FX232", run.place_of_probe(probe).widened(probe.node.parent))


def drawn(search: Search) -> None:
    """Notes for `unseen_draw` whether the state of a generator has changed, before other traces restore it."""
    search.best.notes.drew = search.subject.snapshot.drew_random()


def unseen_draw(search: Search) -> None:
    """FX206 without a place: a generator's state changed in code without probes."""
    run = search.best
    found = any(each.code in ("FX206", "FX232") or each.loud for each in run.findings)
    if run.complete and not found and run.notes.drew and _draws(search):
        run.add("FX206", None, "Random numbers drawn while tracing stay the same in every call; the line is not known")


def _draws(search: Search) -> bool:
    """Whether a trace without value computation draws random numbers: computing values also runs the code of leaves."""
    subject = search.subject
    subject.snapshot.restore()
    tracer = StrictTracer(subject.leaves, subject.own_tracer)
    try:
        tracer.trace(subject.root, search.best.course.concrete_args)
        return subject.snapshot.drew_random()
    finally:
        subject.snapshot.restore()


def context(run: Run, probe: Probe, value: Any) -> None:
    """Collects contexts that are entered, for `lost_contexts`."""
    code = "FX212" if isinstance(value, _GRAD) else "FX213" if isinstance(value, torch.autocast) else None
    if code is not None:
        block = span_of(probe.node.parent.parent, probe.file)
        is_off = code == "FX213" and _is_off(probe.node)
        run.notes.regions[probe.span] = Region(code, run.place_of_probe(probe), block, is_off)


def _is_off(call: ast.AST) -> bool:
    """Whether the code says ``enabled=False``; without a GPU, autocast for one says so of itself, too."""
    given = [each.value for each in call.keywords if each.arg == "enabled"] if isinstance(call, ast.Call) else []
    value = given[0] if given else None
    return (value.value if isinstance(value, ast.Constant) else value and constant(value, users_frame())) is False


def checkpointed(run: Run, probe: Probe, value: Any) -> None:
    """Collects calls of torch's checkpoint, for `lost_contexts`."""
    if home_of(value).startswith("torch.utils.checkpoint"):
        _whole_call(run, probe, "FX214", probe.node.parent)


def applied(run: Run, probe: Probe, value: Any) -> None:
    """Collects calls of a custom autograd.Function, for `lost_contexts`."""
    if isinstance(value, type) and issubclass(value, torch.autograd.Function):
        _whole_call(run, probe, "FX221", probe.node.parent.parent)


def _whole_call(run: Run, probe: Probe, code: str, call: Any) -> None:
    whole = run.place_of_probe(probe).widened(call)
    run.notes.regions[whole.span] = Region(code, whole, whole.span)


def lost_contexts(search: Search) -> None:
    """FX212, FX213, FX214, FX221: nodes were recorded inside a context."""
    run = search.best
    regions = [*run.notes.regions.values(), *_decorated(search.subject.instrumentation)]
    # A context whose argument was made up has its own finding.
    modes = {} if any(each.code == "FX184" for each in run.findings) else run.tracer.modes
    if not regions and not modes:
        return
    paths = [(node, spans.call_path(node._site)) for node in run.nodes if node._site is not None]
    for region in regions:
        inside = (node for node, path in paths if any(within(step, region.span) for step in path))
        first = next(inside, None)
        if first is not None and region.is_off:
            text = f"`{region.place.text}` is not recorded, so the operations inside run under the caller's autocast"
            detail = "Call the graph outside of autocast, or convert with `.float()`"
            run.add(region.code, region.place, text, detail=detail, node=first.name, severity="info")
        elif first is not None:
            run.add(region.code, region.place, node=first.name)
    said: set[str] = set()
    for node, path in paths:
        code = modes.get(node._site)
        own = (region for region in regions if code in (region.code, "FX212"))
        if code is None or code in said or any(within(step, region.span) for region in own for step in path):
            continue
        # A mode change without a visible place, as when other code calls `__enter__`.
        said.add(code)
        place = run.place_at(_caller_of_forward(node._site)) if code == "FX221" else run.place_of_node(node)
        run.add(code, place, "" if place is None else _IN_A_MODE[code].format(place.text), node=node.name)


_IN_A_MODE = {
    "FX212": "`{}` runs in another grad mode than its caller, which the graph does not record",
    "FX213": "`{}` runs under autocast, which the graph does not record",
    "FX221": "`{}` is recorded as the operations of its forward, so its own backward is lost",
}


def _caller_of_forward(site: Any) -> Any:
    """The site of the call that ran the innermost ``forward``."""
    while site is not None and site[2] is not None:
        if site[0].co_name == "forward":
            return site[2]
        site = site[2]
    return site


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
                value = attribute(value, part)
            rule = "FX212" if value in _GRAD else "FX213" if value is torch.autocast else None
            if rule is not None:
                span = span_of(decorator, code.co_filename)
                yield Region(rule, Place(span, decorator, None, (span,)), span_of(tree, code.co_filename))


def handler(run: Run, probe: Probe, value: Any) -> None:
    """FX215: a user's exception handler runs because tracing failed."""
    error = sys.exc_info()[1]
    if error is not None and not raises_again(probe.node):
        swallowed(run, error)


AT_PROBES = {
    "random": random_draw,
    "seed": seeded,
    "context": context,
    "checkpoint": checkpointed,
    "checkpoint_sequential": checkpointed,
    "apply": applied,
    "handler": handler,
}
LOOKERS: Lookers = {ast.Call: [_look_call], ast.With: [_look_with]}
ON_GRAPH = (lost_contexts, drawn)
LAST = (unseen_draw,)
