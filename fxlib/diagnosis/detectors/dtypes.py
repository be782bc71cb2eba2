"""The dtype of a module's own parameters as a constant of the graph: found by a trace in another precision."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from fxlib.diagnosis.engine.reach import names_in
from fxlib.diagnosis.engine.search import Search
from fxlib.diagnosis.engine.tracers import StrictTracer
from fxlib.diagnosis.engine.values import show
from fxlib.ir.arguments import map_aggregate
from fxlib.ir.modules import hollow_copy
from fxlib.ir.node import Node

__all__ = ["LAST"]

_NAMES = frozenset({"dtype", "finfo"})


def own_dtype(search: Search) -> None:
    """FX238: in another precision, the graph of the same module has another dtype, or a number derived from it, at a
    node."""
    run, subject = search.best, search.subject
    if not run.complete or not isinstance(subject.root, nn.Module) or any(each.loud for each in run.findings):
        return
    named = {name for each in subject.instrumentation.functions for name in names_in(each.__code__)}
    own = next((each.dtype for each in subject.root.parameters() if each.is_floating_point()), None)
    if own is None or named.isdisjoint(_NAMES):
        return
    # Another trace takes as long as the first. A fraction among the arguments justifies one only if the limits of a
    # dtype are read.
    kind = torch.dtype | float if "finfo" in named else torch.dtype
    if not any(isinstance(each, kind) for node in run.nodes for each in _constants(node)):
        return
    other = torch.float32 if own == torch.float64 else torch.float64
    subject.snapshot.restore()
    try:
        tracer = StrictTracer(subject.leaves, subject.own_tracer)
        nodes = list(tracer.trace(hollow_copy(subject.root, other), run.course.concrete_args).nodes)
    except Exception:
        return  # models that cannot be copied or traced without data are skipped
    finally:
        subject.snapshot.restore()
    pairs = list(itertools.zip_longest(run.nodes, nodes))
    if any(one is None or two is None or one.name != two.name for one, two in pairs):
        return
    kinds = (torch.dtype,) if any(each.code == "FX206" for each in run.findings) else (torch.dtype, float)
    for one, two in pairs:
        for here, there in zip(_constants(one), _constants(two), strict=False):
            if type(here) is type(there) and isinstance(here, kinds) and here != there:
                place = run.place_of_node(one)
                it = "The graph" if place is None else f"`{place.text}`"
                run.add("FX238", place, f"{it} keeps {show(here)}, as the parameters were while tracing", node=one.name)
                break


def _constants(node: Node) -> list[Any]:
    """The dtypes and fractions among the arguments of a node."""
    found: list[Any] = []

    def note(item: Any) -> Any:
        if isinstance(item, torch.dtype | float):
            found.append(item)
        return item

    map_aggregate((node.args, node.kwargs), note)
    return found


LAST = (own_dtype,)
