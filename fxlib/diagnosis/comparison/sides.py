"""The two sides of a comparison: a module and its graph, called with the same inputs."""

from __future__ import annotations

import contextlib
import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fxlib.capture.module_state import unchanged
from fxlib.codegen.graph_module import GraphModule
from fxlib.diagnosis.engine.tracers import StrictTracer
from fxlib.diagnosis.fixes.compare import Outcome, agree, run, same_state, seed_all
from fxlib.ir.graph import Graph
from fxlib.ir.leaves import map_tensors
from fxlib.ir.span import boundary

__all__ = [
    "CALLS",
    "TRAINING",
    "Called",
    "Difference",
    "Given",
    "Made",
    "Tracing",
    "calls_of",
    "eager",
    "in_training",
    "parted",
    "traced",
]

Given = tuple[tuple[Any, ...], dict[str, Any]]
CALLS = ("the first call", "the second call")
TRAINING = "a call with gradients"
_SUFFIX = re.compile(r"_\d+$")
_SCALE = 1.0625
"""The factor for weights after the first call, to simulate training: exact in each floating type."""


@dataclass(frozen=True)
class Made:
    """A module for one side only, and its inputs: the example, and another draw of it."""

    model: nn.Module
    calls: tuple[Given, Given]


Make = Callable[[], AbstractContextManager[Made]]


@dataclass(frozen=True)
class Tracing:
    """How the graph is traced."""

    concrete: Mapping[str, Any] = field(default_factory=dict)
    leaves: frozenset[str] = frozenset()
    tracer: Callable[[], Any] | None = None

    def new(self) -> Any:
        return StrictTracer(self.leaves) if self.tracer is None else self.tracer()

    def trace(self, root: nn.Module, tracer: Any) -> GraphModule:
        """Trace the module and restore its state, as far as proxies allow."""
        seed_all(0)
        with unchanged(root):
            graph = tracer.trace(root, *([dict(self.concrete)] if self.concrete else []))
            if not isinstance(graph, Graph):
                from fxlib.interop import from_torch_graph

                graph = from_torch_graph(graph)
            return GraphModule(tracer.root, graph, type(root).__name__)


@dataclass
class Called:
    """The result of one call, and the buffers after it."""

    outcome: Outcome
    buffers: dict[str, torch.Tensor]
    seconds: float
    needing: dict[str, bool] = field(default_factory=dict)
    """Whether each parameter requires gradients afterwards, in a call with gradients."""


Around = Callable[[int], AbstractContextManager[Any]]
"""The context of a call, by its number."""


def _nothing(at: int) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


def calls_of(first: Given, other: Given) -> tuple[Given, Given]:
    """The example, and a second draw of it with opposite signs, which may take another branch."""

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        return -tensor.detach() if tensor.is_floating_point() and tensor.layout == torch.strided else tensor

    return first, map_tensors(turned, other)


def eager(made: Made, around: Around = _nothing) -> Iterator[Called]:
    """The calls of the module itself, one after the other."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return boundary(made.model, args, kwargs)

    return _calls(call, made, made.model, around)


def traced(
    made: Made,
    tracing: Tracing,
    graph: Callable[[], GraphModule],
    around: Around = _nothing,
    runner: Callable[[GraphModule], Any] = lambda module: module,
) -> Iterator[Called]:
    """The calls of its graph."""
    before = _buffers(made.model)
    module = graph()
    first, other = (_without_fixed(made.model, module, given, tracing.concrete) for given in made.calls)
    for called in _calls(runner(module), Made(made.model, (first, other)), module, around):
        yield Called(called.outcome, {**before, **called.buffers}, called.seconds)


def _without_fixed(model: nn.Module, module: nn.Module, given: Given, concrete: Mapping[str, Any]) -> Given:
    """The arguments of a module in the form for its graph: some fixed arguments have another name there (``size_1``),
    the others are omitted."""
    if not concrete:
        return given
    values = dict(inspect.signature(model.forward).bind(*given[0], **given[1]).arguments)
    found = {}
    for name in inspect.signature(module.forward).parameters:
        own = name if name in values else _SUFFIX.sub("", name)
        if own in values:
            found[name] = values[own]
    return (), found


def _calls(call: Any, made: Made, state: nn.Module, around: Around) -> Iterator[Called]:
    for at, (args, kwargs) in enumerate(made.calls):
        if at:
            _train(made.model)
        start = time.thread_time()
        with around(at):
            outcome = run(call, args, kwargs, CALLS[at], False, seed=7 + at)
        yield Called(outcome, _buffers(state), time.thread_time() - start)


def in_training(made: Made, graph: Any = None, concrete: Mapping[str, Any] | None = None) -> Called:
    """One call with gradients: of the model, or of its ``graph`` with ``concrete`` arguments."""
    module, given = made.model, made.calls[0]
    if graph is not None:
        module, given = graph, _without_fixed(made.model, graph, given, concrete or {})
    outcome = run(module, *given, TRAINING, True)
    return Called(outcome, {}, 0.0, {name: each.requires_grad for name, each in module.named_parameters()})


def _train(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if not is_lazy(parameter) and parameter.is_floating_point():
                parameter.mul_(_SCALE)


def _buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: each.detach().clone() for name, each in model.named_buffers() if isinstance(each, torch.Tensor)}


@dataclass(frozen=True)
class Difference:
    """A difference as short text; ``buffer`` if only a buffer differs; ``raises`` if the graph does."""

    text: str
    buffer: str | None = None
    raises: bool = False


def parted(old: Called, new: Called) -> Difference | None:
    """The difference between an eager call and one of the graph; None if there is none."""
    if old.outcome.error is not None:
        return None
    if new.outcome.error is not None:
        return Difference(f"the graph raises {new.outcome.error}", raises=True)
    same, _, reason = agree(old.outcome, new.outcome)
    if not same:
        return Difference(reason)
    if effects := old.outcome.differing_effects(new.outcome):
        return Difference(effects[0])
    if old.outcome.needing != new.outcome.needing:
        return Difference(f"the result {'needs' if any(new.outcome.needing) else 'does not need'} gradients")
    for name in old.needing.keys() & new.needing.keys():
        if old.needing[name] != new.needing[name]:
            return Difference(f"`{name}` {'needs' if new.needing[name] else 'does not need'} gradients afterwards")
    for name in old.buffers.keys() & new.buffers.keys():
        if not same_state({name: old.buffers[name]}, {name: new.buffers[name]}):
            return Difference(f"the buffer `{name}` has another value", name)
    return None
