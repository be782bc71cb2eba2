"""The entry: `compare` calls a model and its graph with the same inputs, and reports the first difference."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.diagnosis.comparison.parting import Parting, part
from fxlib.diagnosis.comparison.parts import Asked, Kind, Returned, kind_of, proven
from fxlib.diagnosis.comparison.recording import Recorder, Replay
from fxlib.diagnosis.comparison.sides import (
    CALLS,
    TRAINING,
    Called,
    Difference,
    Given,
    Made,
    Tracing,
    calls_of,
    eager,
    in_training,
    parted,
    traced,
)
from fxlib.diagnosis.engine import trees
from fxlib.diagnosis.engine.findings import Findings
from fxlib.diagnosis.engine.place import Place, place_of
from fxlib.diagnosis.engine.reach import reachable, reached
from fxlib.diagnosis.engine.snapshot import Snapshot
from fxlib.diagnosis.fixes.example import with_concrete
from fxlib.diagnosis.report import Finding
from fxlib.ir import span as spans
from fxlib.ir.modules import copy_of

__all__ = ["CODE", "compare", "copies", "parting"]

CODE = "FX236"
_LONGEST = 80  # characters of the text of a difference
_SLOW = 0.5
"""Processor seconds for one eager call; slower models are not compared."""
_LOADING = 2.0
"""Those of a first call, which may load what later ones have."""


Make = Callable[[], AbstractContextManager[Made]]


class CannotCopy(TypeError):
    """A model holds something that cannot be copied, such as a lock."""


def compare(
    root: nn.Module,
    example_inputs: Any,
    *,
    concrete_args: Mapping[str, Any] | None = None,
    leaf_modules: Iterable[str] = (),
    tracer: Callable[[], Any] | None = None,
) -> Finding | None:
    """Find where the results of a module and its graph differ, in two consecutive calls.

    Copies of both run with the same seeds: on the example, and then, with other weights, on the example with opposite
    signs. ``root`` is not changed.

    Args:
        root: a module that torch.fx traces.
        example_inputs: see `fxlib.diagnose`; tensors with data.
        concrete_args, leaf_modules, tracer: see `fxlib.diagnose`.

    Returns:
        The finding at the first difference. None if nothing differs, or if the module itself is not deterministic,
        raises, or is slow.

    Raises:
        TypeError: the module holds something that cannot be copied.

    >>> import torch, fxlib
    >>> class Net(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * torch.get_default_dtype().itemsize
    >>> fxlib.compare(Net(), torch.ones(3)) is None
    True
    """
    if isinstance(example_inputs, Mapping):
        given: Given = (), dict(example_inputs)
    else:
        given = (example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)), {}
    concrete = dict(concrete_args or {})
    given = with_concrete(root, given, concrete)
    tracing = Tracing(concrete, frozenset(leaf_modules), tracer)
    make = copies(root, calls_of(given, given), tracing)
    return parting(make, make, tracing)[1]


def copies(model: nn.Module, calls: tuple[Given, Given], tracing: Tracing) -> Make:
    """Makes the sides of a comparison: copies of the model, each starting from the original state outside of it."""
    modules = reached(model, tracing.new().is_leaf_module)
    snapshot = Snapshot(modules, reachable(model, modules))

    @contextlib.contextmanager
    def make() -> Iterator[Made]:
        try:
            copied = copy_of(model)
        except Exception as error:
            raise CannotCopy(
                f"{type(model).__name__} cannot be compared with its graph, since it cannot be copied: {error}"
            ) from error
        try:
            yield Made(copied, calls)
        finally:
            snapshot.restore()

    return make


def parting(make: Make, again: Make, tracing: Tracing, training: bool = False) -> tuple[set[Kind], Finding | None]:
    """The kinds of modules that need not be compared any more, and where a model and its graph diverge. They are those
    of the model, if it could be compared, and, if nothing diverges, of parts that returned the same values.

    Args:
        make: makes a module for one side, and its calls.
        again: the same, with the state outside of the module reset.
        tracing: how the graph is traced.
        training: whether gradients are compared, too.
    """
    seen: list[Returned] = []
    asked: list[Asked] = []

    def around(at: int) -> Returned:
        seen.append(Returned(made.model))
        return seen[-1]

    def graph() -> GraphModule:
        asked.append(_asked(made, tracing))
        return asked[0].module

    with make() as made:
        own = {kind_of(made.model)}
        old = _worked(eager(made, around))
    if old is None:
        return set(), None
    with make() as made:
        new = list(traced(made, tracing, graph, runner=lambda _: asked[0]))
    if tracing.concrete and new[0].outcome.error == "TypeError":
        return set(), None  # probably due to the graph's signature
    if any(map(parted, old, new)):
        return own, _located(again, tracing, old)
    known = proven(seen[: len(old)], asked[0].calls)
    if not training:
        return own | known, None
    alike, found = _in_training(make, tracing)
    return own | (known & alike), found


def _asked(made: Made, tracing: Tracing) -> Asked:
    with Returned(made.model) as returned:
        module = tracing.trace(made.model, tracing.new())
    return Asked(module, returned)


def _in_training(make: Make, tracing: Tracing) -> tuple[set[Kind], Finding | None]:
    """The kinds of parts that need gradients for the same values, and where the model returns, if gradients differ and
    nothing else does."""
    with make() as made, Returned(made.model) as seen:
        one = in_training(made)
    with make() as made:
        graph = _asked(made, tracing)
        other = in_training(made, graph, tracing.concrete)
    reason = parted(one, other)
    if reason is None:
        return proven([seen], graph.calls), None
    with make() as made:
        if parted(one, in_training(made)) is not None:
            return set(), None
    text = f"In {TRAINING}, the graph differs from eager: {reason.text[:_LONGEST]}"
    advice = "Set `requires_grad` outside of forward, or use detach(), which is recorded"
    return set(), Findings().add(CODE, _returned(made.model), text, detail=advice)


def _worked(calls: Iterator[Called]) -> list[Called] | None:
    """The results of the calls that succeeded; None if the first one failed, or all were slow."""
    found: list[Called] = []
    for each in calls:
        if each.outcome.error is not None:
            break
        found.append(each)
        if each.seconds > _LOADING:
            break
    return found if found and min(each.seconds for each in found) <= _SLOW else None


def _located(make: Make, tracing: Tracing, before: list[Called]) -> Finding | None:
    """Repeat the calls from the same state with recording, to locate the difference; None if eager is not
    reproducible."""
    tracer = tracing.new()
    take = getattr(tracer, "_take_site", None) or spans.current_site
    kept = Recorder(site=take, nodes=lambda: _nodes(tracer))
    replays: list[Replay] = []
    notes: list[Any] = []

    def graph() -> GraphModule:
        with kept:
            replays.append(Replay(tracing.trace(made.model, tracer)))
        return replays[0].graph_module

    def runner(_: GraphModule) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return replays[0](*args, **kwargs)
            finally:
                notes.append(replays[0].values)

        return call

    with make() as made:
        new = list(traced(made, tracing, graph, runner=runner))
    paths = {str(node.target) for node in replays[0].graph.nodes if node.op == "call_module"}
    with make() as made:
        modules = dict(made.model.named_modules(remove_duplicate=False))
        leaves = [modules[path] for path in paths if path in modules]
        recorders: list[Recorder] = []
        model = made.model

        @contextlib.contextmanager
        def around(at: int) -> Iterator[None]:
            recorders.append(Recorder(leaves, root=made.model))
            with recorders[-1]:
                yield

        old = list(eager(made, around))
    if any(map(parted, before, old)):  # perhaps only because other models ran earlier
        with make() as made:
            before = _worked(eager(made)) or []
    for number, (first, one, other) in enumerate(zip(before, old, new, strict=False)):
        if parted(first, one) is not None:
            return None  # eager itself is not reproducible
        reason = parted(one, other)
        if reason is not None:
            found = part(recorders[number].events, notes[number], kept.events)
            return _finding(model, number, reason, found, recorders[number])
    return None


def _nodes(tracer: Any) -> int:
    graph = getattr(tracer, "graph", None)
    return 0 if graph is None else len(graph.nodes)


def _finding(model: nn.Module, number: int, apart: Difference, found: Parting | None, seen: Recorder) -> Finding | None:
    call, node, detail = CALLS[number], None, ""
    written = place_of(seen.written.get(apart.buffer or ""), {})
    if found is None and written is not None:
        place: Place | None = written
        text = f"In {call}, {_it(written)} leaves another value in the buffer `{apart.buffer}` than the graph"
    elif found is None:
        place = _returned(model)
        text = f"In {call}, the graph differs from eager: {apart.text[:_LONGEST]}"
        if apart.raises:
            detail = "What forward does so that this is not raised, or is caught, is not recorded"
    else:
        place, node = found.place, found.node
        it = _it(place)
        text = {
            "kept": f"The graph keeps {found.new}, the value of {it} while tracing; in {call} eager has {found.old}",
            "value": f"In {call}, {it} gives {found.old} in eager and {found.new} in the graph",
            "way": f"In {call}, {it} decides differently in eager; the graph always takes the branch of the trace",
            "only": f"In {call}, eager does not reach {it}; the graph always does",
        }[found.kind]
    return Findings().add(CODE, place, text, detail=detail, node=node)


def _it(place: Place) -> str:
    return f"`{place.text}`" if place.text else "this expression"


def _returned(model: nn.Module) -> Place | None:
    """The place of forward's only return, or else its head."""
    code = getattr(type(model).forward, "__code__", None)
    tree = trees.function_tree(code) if code is not None else None
    if code is None or tree is None:
        return None
    returned = [each for each in trees.nodes_of(tree) if isinstance(each, ast.Return) and each.value is not None]
    span = trees.span_of(returned[0].value, code.co_filename) if len(returned) == 1 else trees.head_of(code)
    return None if span is None else Place(span, returned[0].value if len(returned) == 1 else None, None, (span,))
