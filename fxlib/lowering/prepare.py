"""Everything before the build: capture, shape propagation, splitting into parts, conversion of the parts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fxlib.capture.hot_loop import collector_paused
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import tensors_in
from fxlib.ir.node import Node
from fxlib.lowering import profiles
from fxlib.lowering.capture import CAPTURES, Captured, capture, check_model
from fxlib.lowering.engine import Engine
from fxlib.lowering.inline import inline
from fxlib.lowering.inputs import Dynamic, Inputs
from fxlib.lowering.layers import layers
from fxlib.lowering.onnx.context import ORIGIN
from fxlib.lowering.onnx.export import Exported, Reason, convert
from fxlib.lowering.places import span_of
from fxlib.lowering.report import LoweringReport, PartReport
from fxlib.lowering.split import MIN_NODES, Split, split
from fxlib.lowering.values import propagate, recorded

PRECISIONS: dict[str, torch.dtype | None] = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
VALUE = "lowering_value"
"""The key of a node's example value in its meta."""
Progress = Callable[[str, float], None]


@dataclass
class Prepared:
    """A model in parts; those for an engine are converted."""

    inputs: Inputs
    captured: Captured
    values: dict[Node, Any]
    cut: Split
    exports: dict[str, Exported]
    """Part -> its ONNX model, for the parts that an engine runs."""
    timings: dict[str, float]
    min_nodes: int = MIN_NODES
    left: dict[Node, Reason] = field(default_factory=dict)
    """Nodes that an engine rejected."""

    def leave(self, refused: Sequence[str], reason: Reason, alike: bool = True) -> bool:
        """Split again, leaving these nodes in PyTorch. False if that changes nothing.

        Args:
            refused: the names of their ONNX nodes.
            reason: why they stay.
            alike: whether nodes like them stay, too: with the same operator, and results of the same dtype.
        """
        gm = self.captured.gm
        names = {name for each in self.exports.values() for one in refused for name in each.origins(one)}
        known = len(self.left)
        for like in [node for node in gm.graph.nodes if node.name in names]:
            if not alike:
                self.left[like] = reason
                continue
            kind = _kind(gm, like, self.values)
            self.left.update((n, reason) for n in gm.graph.nodes if _kind(gm, n, self.values) == kind)
        if len(self.left) == known:
            return False
        clock = _Clock()
        clock.times = self.timings
        self.cut, self.exports = _parts(gm, self.values, self.min_nodes, False, clock, self.left)
        return True

    def report(self, model: str, engine: str, label: str, precision: str) -> LoweringReport:
        """The report before anything is built."""
        parts = []
        for part in self.cut.parts:
            row = PartReport(part.name, engine if part.engine else None, list(part.nodes))
            if part.engine:
                exported = self.exports[part.name]
                row.operators = dict(Counter(n.op_type for n in exported.model.graph))
                row.weights_bytes = sum(t.nbytes for t in exported.parameters.values())
            parts.append(row)
        nodes = {node.name: node for node in self.captured.gm.graph.nodes}
        spans = {name: span_of(nodes[name]) if name in nodes else None for name in self.cut.reasons}
        report = LoweringReport(
            model, engine, label, precision, parts,
            reasons={name: reason.text for name, reason in self.cut.reasons.items()},
            spans=spans,
            codes={name: reason.code for name, reason in self.cut.reasons.items()},
            timings=self.timings,
            captured_by=CAPTURES[self.captured.by],
            not_traced=self.captured.refused,
            dynamic={name: dims for name, dims in zip(self.inputs.labels, self.inputs.dims, strict=True) if dims},
        )  # fmt: skip
        report.layers = layers(self.captured.gm, self.cut, self.exports, self.values, self._roots())
        return report

    def add_profiles(self) -> None:
        """Add the size ranges to the ONNX models, for engines that are built for a range of sizes."""
        roots = self._roots()
        for name, exported in self.exports.items():
            placeholders = getattr(self.cut.module, name).graph.find_nodes(op="placeholder")
            profiles.add(exported, placeholders, {node: node.meta[VALUE] for node in placeholders}, roots)

    def _roots(self) -> dict[Any, Any]:
        return profiles.roots_of(self.inputs, self.captured.gm.graph.find_nodes(op="placeholder"), self.values)


def precision_of_graph(
    model: torch.nn.Module, engine: Engine, precision: str, wanted: str | None, min_nodes: int, caller: str
) -> torch.dtype | None:
    """The dtype to which the graph casts floating-point values; None for no cast. Checks arguments of `lower`.

    Raises:
        TypeError, ValueError: one of them is of the wrong type, unknown, or the model is in training mode.
    """
    check_model(model, caller, wanted)
    if precision not in PRECISIONS:
        raise ValueError(
            f"unknown precision {precision!r}; one of {', '.join(PRECISIONS)} (int8 comes from fxlib.passes.quantize)"
        )
    if model.training:
        raise ValueError(f"{type(model).__name__} is in training mode; call .eval() on it before lowering")
    if type(min_nodes) is not int:
        raise TypeError(f"{caller}: min_nodes must be an integer, not {type(min_nodes).__name__}")
    if min_nodes < 0:
        raise ValueError(f"{caller}: min_nodes must be 0 or more, not {min_nodes}")
    return None if precision in engine.computes else PRECISIONS[precision]


def prepare(
    model: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    dynamic: Dynamic = None,
    concrete_args: Mapping[str, Any] | None = None,
    wanted: str | None = None,
    dtype: torch.dtype | None = None,
    min_nodes: int = MIN_NODES,
    shapes_only: bool = False,
    caller: str = "lower()",
    say: Progress = lambda stage, done: None,
) -> Prepared:
    """Everything up to the build.

    Args:
        model: a module in evaluation mode, or a GraphModule.
        example_inputs, dynamic, concrete_args: see `Inputs`.
        wanted, dtype: see `capture`.
        min_nodes: the smallest part that goes to an engine.
        shapes_only: whether parameters may be on the meta device; the result cannot be built then.
        caller: the prefix of error texts.
        say: called with the stage's name and the fraction done.

    Raises:
        TypeError, ValueError: see `Inputs`.
        CaptureError: the model cannot be captured.
    """
    clock = _Clock()
    inputs = Inputs(model.forward, example_inputs, dynamic, concrete_args, caller)
    with collector_paused():  # a conversion creates many objects; a collection would take longer than it
        say("trace", 0.0)
        captured = capture(model, inputs, wanted, dtype)
        clock.mark("trace")
        return prepare_captured(inputs, captured, min_nodes, shapes_only, say, clock)


def prepare_captured(
    inputs: Inputs,
    captured: Captured,
    min_nodes: int = MIN_NODES,
    shapes_only: bool = False,
    say: Progress = lambda stage, done: None,
    clock: _Clock | None = None,
) -> Prepared:
    """The steps after the capture, whose graph is changed; arguments as for `prepare`."""
    clock = clock or _Clock()
    with collector_paused():
        say("shapes", 0.1)
        values = known_values(captured, inputs)
        clock.mark("values")
        say("split", 0.2)
        cut, exports = _parts(captured.gm, values, min_nodes, shapes_only, clock)
    return Prepared(inputs, captured, values, cut, exports, clock.times, min_nodes)


def known_values(captured: Captured, inputs: Inputs) -> dict[Node, Any]:
    """The example value of every node; library functions are inlined if they can then be converted."""
    gm = captured.gm
    if captured.by == "export":
        return recorded(gm)
    dynamic = any(inputs.dims)
    values = propagate(gm, captured.tensors, inputs.dims)
    if not dynamic and inline(gm, values):
        values = propagate(gm, captured.tensors, inputs.dims)
    return values


def _parts(
    gm: GraphModule,
    values: dict[Node, Any],
    min_nodes: int,
    shapes_only: bool,
    clock: _Clock,
    left: Mapping[Node, Reason] | None = None,
) -> tuple[Split, dict[str, Exported]]:
    """Split, and convert each engine part. Nodes that fail to convert in their part stay in PyTorch, like `left`."""
    for node, value in values.items():
        node.meta[ORIGIN] = node.name
        node.meta[VALUE] = value  # copies of a node in the parts keep its meta, but may have other names
    nodes = {node.name: node for node in gm.graph.nodes}
    found = dict(left or {})
    while True:
        cut = split(gm, values, min_nodes, found)
        clock.mark("split")
        exports: dict[str, Exported] = {}
        problems: dict[str, Reason] = {}
        for part in cut.parts:
            if part.engine:
                sub = getattr(cut.module, part.name)
                known = {node: node.meta[VALUE] for node in sub.graph.nodes if node.op != "output"}
                exported, refused = convert(sub, known, part.name, shapes_only)
                if exported is not None:
                    exports[part.name] = exported
                problems.update((node.meta[ORIGIN], reason) for node, reason in refused.items())
        clock.mark("convert")
        if not problems:
            return cut, exports
        found.update((nodes[name], reason) for name, reason in problems.items())


def _kind(gm: GraphModule, node: Node, values: dict[Node, Any]) -> tuple[Any, ...]:
    """The operator of a node, and the dtypes of its results."""
    operator = type(gm.get_submodule(str(node.target))) if node.op == "call_module" else node.target
    return node.op, operator, *(tensor.dtype for tensor in tensors_in(values.get(node)))


class _Clock:
    """Milliseconds by stage."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, stage: str) -> None:
        now = time.perf_counter()
        self.times[stage] = self.times.get(stage, 0.0) + (now - self._last) * 1e3
        self._last = now
