"""`lower`: a model in, a module out that runs on an engine and agrees with the model."""

from __future__ import annotations

import copy
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fxlib.capture.tracer import _collector_paused, symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.leaves import cast, tensors_in
from fxlib.ir.node import Node
from fxlib.lowering.difference import copied, difference
from fxlib.lowering.engine import BuildOptions, EngineError
from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.inline import inline
from fxlib.lowering.layers import layers
from fxlib.lowering.onnx.context import ORIGIN
from fxlib.lowering.onnx.export import Exported, functionalize, to_onnx
from fxlib.lowering.part import EnginePart
from fxlib.lowering.profile import LayerTime, layer_times
from fxlib.lowering.report import LoweringReport, PartReport
from fxlib.lowering.split import MIN_NODES, Split, split
from fxlib.lowering.store import read, save
from fxlib.lowering.values import Dynamic, propagate

_VALUE = "lowering_value"
PRECISIONS: dict[str, torch.dtype | None] = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


class LoweredModule(torch.nn.Module):
    """A lowered model: callable like the model it came from.

    Attributes:
        report: parts, reasons, sizes, times, and the difference from eager.
    """

    def __init__(self, module: torch.nn.Module, report: LoweringReport, options: BuildOptions) -> None:
        super().__init__()
        self.module = module
        self.report = report
        self.options = options
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return self.module(*args, **kwargs)

    def train(self, mode: bool = True) -> LoweredModule:
        if mode:
            raise RuntimeError(
                f"{self.report.model} was lowered to {self.report.label} for inference; train the original model"
            )
        return super().train(False)

    def engine_parts(self) -> list[tuple[str, EnginePart]]:
        return [(name, m) for name, m in self.module.named_modules() if isinstance(m, EnginePart)]

    def profile(self, *args: Any, runs: int = 10) -> list[LayerTime]:
        """The time of each layer on these inputs; `fxlib.lowering.LayerTime` has its source line."""
        return layer_times(self, self.report, args, runs)

    def list_kernels(self) -> None:
        """Write the kernels that each engine chose into the report: `report.parts[…].kernels`."""
        rows = {row.name: row for row in self.report.parts}
        for name, part in self.engine_parts():
            rows[name.rpartition(".")[2]].kernels = part.program.kernels()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the lowered model to the directory `path`; `fxlib.lowering.load` reads it back."""
        save(Path(path), self.module, self.report, self.options)


def load(path: str | os.PathLike[str], *, trusted: bool = False) -> LoweredModule:
    """Read a lowered model back and build its engines again.

    Args:
        path: the directory that `LoweredModule.save` wrote.
        trusted: load it although it was not written by this user. It can run any code.

    Raises:
        UntrustedModel: the seal is missing or does not fit.
        ValueError: the directory is of another format.
        EngineError: its engine is not installed here.
    """
    return LoweredModule(*read(Path(path), trusted))


def lower(
    model: torch.nn.Module,
    example_inputs: Sequence[Any],
    *,
    engine: str = DEFAULT,
    precision: str = "fp32",
    dynamic: Dynamic = None,
    min_nodes: int = MIN_NODES,
    options: BuildOptions | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> LoweredModule:
    """Lower a model to an engine; what has no converter stays in PyTorch.

    Args:
        model: a module in evaluation mode (traced here) or a GraphModule.
        example_inputs: one value per argument of `forward`. With real data the result is compared with eager.
        engine: the name of an engine; `fxlib.lowering.table()` has them.
        precision: "fp32", "fp16" or "bf16": by casts written into the graph, or by the engine itself where it computes
            in it; inputs and outputs keep their dtypes. int8 comes from quantize and dequantize nodes in the graph.
        dynamic: which dimensions may change between calls; see `fxlib.lowering.values.Dynamic`.
        min_nodes: the smallest part that is worth an engine.
        options: how programs are built.
        progress: called with the stage's name and the fraction done, between stages and before each build.

    Raises:
        EngineError: the engine is missing, or refused the model.
        ValueError: the model is in training mode, or an option is unknown.
        TraceError: the model cannot be traced.

    Example::

        lowered = fxlib.lower(ResNet50().eval(), (torch.randn(1, 3, 224, 224),))
        print(lowered.report)
    """
    chosen = get(engine)
    if missing := chosen.missing():
        raise EngineError(f"cannot lower to {chosen.label}: {missing}")
    if precision not in PRECISIONS:
        raise ValueError(
            f"unknown precision {precision!r}; one of {', '.join(PRECISIONS)} (int8 comes from fxlib.passes.quantize)"
        )
    if model.training:
        raise ValueError(f"{type(model).__name__} is in training mode; call .eval() on it before lowering")
    if any(p.is_meta for p in model.parameters()):
        raise ValueError(f"{type(model).__name__} is on the meta device; an engine needs the data of its weights")
    options = replace(options or BuildOptions(), dynamic=dynamic, precision=precision)
    say = progress or (lambda stage, done: None)
    clock = _Clock()

    half = None if precision in chosen.computes else PRECISIONS[precision]
    inputs = list(example_inputs)
    with _collector_paused():  # the objects of a conversion set off a collection that takes longer than it
        say("trace", 0.0)
        gm = model if isinstance(model, GraphModule) else symbolic_trace(model)
        gm = _private(gm)
        functionalize(gm)
        clock.mark("trace")

        if half is not None:
            gm, inputs = _in_precision(gm, half), [cast(value, half) for value in inputs]
        say("shapes", 0.1)
        values = propagate(gm, inputs, dynamic)
        if not dynamic and inline(gm, values):
            values = propagate(gm, inputs, dynamic)
        clock.mark("values")
        say("split", 0.2)
        cut, exports = _convertible(gm, values, min_nodes, clock)

    parts: list[PartReport] = []
    programs: dict[str, torch.nn.Module] = {}
    count = max(len(exports), 1)
    for index, part in enumerate(cut.parts):
        row = PartReport(part.name, engine if part.engine else None, list(part.nodes))
        parts.append(row)
        if not part.engine:
            continue
        exported = exports[part.name]
        say(f"build {part.name}", 0.3 + 0.6 * index / count)
        start = time.perf_counter()
        program = chosen.build(exported, options)
        row.build_ms = (time.perf_counter() - start) * 1e3
        row.operators = dict(Counter(n.op_type for n in exported.model.graph))
        row.weights_bytes = sum(t.nbytes for t in exported.parameters.values())
        row.info = dict(program.info)
        programs[part.name] = EnginePart(exported, program)
    clock.mark("build")
    for name, module in programs.items():
        setattr(cut.module, name, module)

    nodes = {node.name: node for node in gm.graph.nodes}
    spans = {name: nodes[name].span if name in nodes else None for name in cut.reasons}
    reasons = {name: reason.text for name, reason in cut.reasons.items()}
    codes = {name: reason.code for name, reason in cut.reasons.items()}
    report = LoweringReport(
        type(model).__name__, engine, chosen.label, precision, parts, reasons, spans, codes, clock.times
    )
    report.layers = layers(gm, cut, exports, values)
    outer: torch.nn.Module = cut.module if half is None else _Casting(cut.module, half)
    lowered = LoweredModule(outer, report, options)
    say("compare", 0.95)
    compare(lowered, model, example_inputs)
    clock.mark("compare")
    say("done", 1.0)
    return lowered


def compare(lowered: LoweredModule, model: torch.nn.Module, inputs: Sequence[Any]) -> None:
    """Run both on `inputs` and write the largest differences into the report; does nothing where the inputs have no
    data."""
    if any(tensor.is_meta for tensor in [*tensors_in(inputs), *model.parameters()]):
        return
    if any("cannot_run" in part.info for part in lowered.report.parts):
        return
    with torch.no_grad():
        expected, got = model(*copied(list(inputs))), lowered(*copied(list(inputs)))
    lowered.report.max_abs_error, lowered.report.max_rel_error = difference(expected, got)


def _convertible(
    gm: GraphModule, values: dict[Node, Any], min_nodes: int, clock: _Clock
) -> tuple[Split, dict[str, Exported]]:
    """Split, and convert each engine part."""
    for node, value in values.items():
        node.meta[ORIGIN] = node.name
        node.meta[_VALUE] = value  # the copies of a node in the parts may have other names, but they have its meta
    cut = split(gm, values, min_nodes)
    clock.mark("split")
    exports = {}
    for part in cut.parts:
        if part.engine:
            sub = getattr(cut.module, part.name)
            known = {node: node.meta[_VALUE] for node in sub.graph.nodes if node.op != "output"}
            examples = [known[node] for node in sub.graph.find_nodes(op="placeholder")]
            exports[part.name] = to_onnx(sub, examples, name=part.name, values=known)
    clock.mark("convert")
    return cut, exports


def _private(gm: GraphModule) -> GraphModule:
    """A GraphModule with a graph of its own over the same submodules and parameters."""
    graph = Graph()
    environment: dict[Node, Node] = {}
    result = graph.graph_copy(gm.graph, environment)
    graph.output(result).meta.update(gm.graph.output_node().meta)
    private = GraphModule(gm, graph, type(gm).__name__)
    private.eval()
    return private


def _in_precision(gm: GraphModule, dtype: torch.dtype) -> GraphModule:
    lower_copy = copy.deepcopy(gm)
    return lower_copy.to(dtype)


class _Casting(torch.nn.Module):
    """Casts floating-point inputs to the precision of the graph and outputs back."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = module, dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        floating = (tensor.dtype for tensor in tensors_in(args, kwargs) if tensor.is_floating_point())
        return cast(self.module(*cast(args, self.dtype), **cast(kwargs, self.dtype)), next(floating, torch.float32))


class _Clock:
    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, stage: str) -> None:
        now = time.perf_counter()
        self.times[stage] = (now - self._last) * 1e3
        self._last = now
