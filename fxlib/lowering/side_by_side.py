"""A model in each form that it has on its way to an engine, node by node: traced, fused, exported, as ONNX.

Each node of a later stage knows the nodes of the first one that it comes from, and, where the stages are run, how far
its value is from eager's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import tensors_in
from fxlib.ir.node import Node
from fxlib.ir.span import Span
from fxlib.ir.spelling import spelling
from fxlib.lowering.capture import CAPTURES, capture, check_model, export
from fxlib.lowering.difference import copied, difference, told
from fxlib.lowering.engine import BuildOptions
from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.onnx.context import ORIGIN
from fxlib.lowering.onnx.export import convert
from fxlib.lowering.origins import origins
from fxlib.lowering.part import EnginePart
from fxlib.lowering.places import path_of, span_of
from fxlib.lowering.prepare import VALUE, Prepared, prepare
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.transform.interpreter import Interpreter

TOLERANCE = 1e-3
"""A value that is further from eager's than this, relative to the largest magnitude there, has diverged."""
Values = dict[str, Any]
_WHOLE = "(model)"


@dataclass
class Step:
    """A node of a stage. ``origins`` are nodes of the first stage; empty where it is the stage's own addition."""

    name: str
    target: str
    origins: list[str]
    max_abs: float | None = None
    """The largest difference from eager's value at the last origin; None where there is nothing to compare, infinite
    where only one of both has NaN or an infinity."""
    max_rel: float | None = None
    """The same, relative to the largest magnitude there."""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "max_abs": told(self.max_abs), "max_rel": told(self.max_rel)}


@dataclass
class Stage:
    """One form of the model; ``problem`` says why it has none."""

    name: str
    steps: list[Step] = field(default_factory=list)
    problem: str | None = None

    @property
    def mapped(self) -> int:
        """How many steps have origins."""
        return sum(bool(step.origins) for step in self.steps)

    @property
    def diverges(self) -> str | None:
        """The first step that is further from eager than `TOLERANCE`."""
        return next((step.name for step in self.steps if (step.max_rel or 0.0) > TOLERANCE), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "steps": [step.as_dict() for step in self.steps], "problem": self.problem,
            "mapped": self.mapped, "diverges": self.diverges,
        }  # fmt: skip


@dataclass
class Stages:
    """All of them; ``places`` are the source spans of the first one's nodes, and the calls that lead there."""

    model: str
    compared: bool
    stages: list[Stage]
    places: dict[str, tuple[Span | None, tuple[Span, ...]]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model, "compared": self.compared, "stages": [stage.as_dict() for stage in self.stages],
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def stages(
    model: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    concrete_args: Mapping[str, Any] | None = None,
    traced: GraphModule | None = None,
    compare: bool = False,
    say: Callable[[str, float], None] = lambda stage, done: None,
) -> Stages:
    """The stages of a model.

    Args:
        model: a module in evaluation mode.
        example_inputs, concrete_args: see `lower`.
        traced: its trace, where there is one already.
        compare: run each stage on the example, and compare its values with eager's.
        say: called with the stage's name and the fraction done.

    Raises:
        CaptureError: neither torch.fx nor torch.export captures the model.
        TypeError, ValueError: see `lower`.
        ValueError: it is to be compared, and fails on the example.
    """
    check_model(model, "stages()")
    say("capture", 0.0)
    inputs = Inputs(model.forward, example_inputs, None, concrete_args, "stages()")
    given = inputs if traced is None else Inputs(traced.forward, example_inputs, caller="stages()")
    first = capture(model if traced is None else traced, given)
    nodes = [node for node in first.gm.graph.nodes if _is_step(node)]
    eager: Values = {}
    steps = [Step(node.name, spelling(node), [node.name]) for node in nodes]
    if compare:
        called = _running("the model itself", lambda: _calls(model, inputs))
        ran = _running("its graph", lambda: _values(first.gm, first.tensors))
        known = {node.name: called[key] for node in nodes if (key := _call(node)) in called}
        eager = {**ran, **known}
        _compare(steps, {name: ran[name] for name in known}, eager)
    found = [Stage(CAPTURES[first.by], steps)]
    if first.by == "fx":
        say("fuse", 0.2)
        found.append(_stage("fused", eager, lambda: _fused(first.gm, first.tensors, compare)))
        say("export", 0.3)
        found.append(_stage(CAPTURES["export"], eager, lambda: _exported(model, inputs, nodes, compare)))
    else:
        found.insert(0, Stage(CAPTURES["fx"], problem=first.refused))
    say("convert", 0.7)
    begin = model if traced is None else traced
    wanted = None if traced is not None else concrete_args
    found.append(
        _stage("ONNX", eager, lambda: _converted(prepare(begin, example_inputs, concrete_args=wanted), nodes, compare))
    )
    say("done", 1.0)
    places = {node.name: (span_of(node), path_of(node)) for node in nodes}
    return Stages(type(model).__name__, compare, found, places)


def _stage(name: str, eager: Values, make: Callable[[], tuple[list[Step], Values]]) -> Stage:
    try:
        steps, values = make()
        _compare(steps, values, eager)
    except Exception as error:
        return Stage(name, problem=_first_line(error))
    return Stage(name, steps)


def _running(what: str, values: Callable[[], Values]) -> Values:
    try:
        return values()
    except Exception as error:
        raise ValueError(f"{what} fails on the example inputs: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def _compare(steps: list[Step], values: Values, eager: Values) -> None:
    for step in steps:
        got, expected = values.get(step.name), eager.get(step.origins[-1]) if step.origins else None
        shapes = [[each.shape for each in tensors_in(value)] for value in (got, expected)]
        if shapes[0] and shapes[0] == shapes[1]:
            step.max_abs, step.max_rel = difference(tensors_in(expected), tensors_in(got))


def _is_step(node: Node) -> bool:
    """Parameters are no steps: they belong to what takes them."""
    return node.op != "get_attr"


def _fused(gm: GraphModule, tensors: Sequence[torch.Tensor], compare: bool) -> tuple[list[Step], Values]:
    changed = fuse_conv_bn(copy.deepcopy(gm))
    norms = {each.layer: each.norm for each in changed.meta["fuse_conv_bn"].fused}
    known = {node.name for node in gm.graph.nodes}
    steps = []
    for node in filter(_is_step, changed.graph.nodes):
        own = [node.name] if node.name in known else []
        steps.append(Step(node.name, spelling(node), [*own, *([norms[node.name]] if node.name in norms else [])]))
    return steps, _values(changed, tensors) if compare else {}


def _exported(
    model: torch.nn.Module, inputs: Inputs, traced: Sequence[Node], compare: bool
) -> tuple[list[Step], Values]:
    program = export(model, inputs)
    nodes = [node for node in program.gm.graph.nodes if _is_step(node)]
    found = origins(traced, nodes)
    steps = [Step(node.name, spelling(node), [found.of[node.name]] if node.name in found.of else []) for node in nodes]
    values = _values(program.gm, program.tensors) if compare else {}
    return steps, {name: values[name] for name in found.values.values() if name in values}


def _converted(prepared: Prepared, first: Sequence[Node], compare: bool) -> tuple[list[Step], Values]:
    """The ONNX nodes of the parts that convert, and the nodes that stay in PyTorch between them."""
    nodes = list(prepared.captured.gm.graph.nodes)
    known = {(node.name, node.op, node.target) for node in first}
    same = {node.name for node in nodes if (node.name, node.op, node.target) in known}
    # What a library function was opened into stands where the function stood, and has other values.
    at = {(span_of(node), path_of(node)): node.name for node in first}
    own = {node.name: node.name if node.name in same else at.get((span_of(node), path_of(node))) for node in nodes}
    ran = _parts_values(prepared) if compare else {}
    steps, values = [], {}
    for part in prepared.cut.parts:
        made = (
            [(each.name or "", each.op_type, each.metadata_props["fx.node"]) for each in _onnx(prepared, part.name)]
            if part.engine
            else [(name, "PyTorch", name) for name in part.nodes]
        )
        last = {node: name for name, _, node in made}
        values.update({name: ran[node] for node, name in last.items() if node in ran and node in same})
        steps += [Step(name, target, [origin] if (origin := own.get(node)) else []) for name, target, node in made]
    ends = [
        [Step(node.name, node.op, [node.name]) for node in nodes if node.op == op] for op in ("placeholder", "output")
    ]
    return [*ends[0], *steps, *ends[1]], values


def _onnx(prepared: Prepared, part: str) -> Any:
    return prepared.exports[part].model.graph


class _Recording(Interpreter):
    """Keeps the value of each node as it was when it was computed: a later one may write to it."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.values: Values = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        self.values[n.name] = copied(value)
        return value


def _values(gm: GraphModule, tensors: Sequence[torch.Tensor]) -> Values:
    recording = _Recording(gm)
    with torch.no_grad():
        recording.run(*copied(list(tensors)))
    return recording.values


class _Parts(_Recording):
    """Runs a model in parts, those that convert as ONNX, each with all its values as outputs: what an engine would join
    into one kernel is then computed apart."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__(prepared.cut.module)
        parts = ((name, prepared.cut.module.get_submodule(name)) for name in prepared.exports)
        self.programs = {name: _with_all_values(cast(GraphModule, part)) for name, part in parts}

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target not in self.programs:
            inner = _Recording(self.submodules[target])
            result = inner.run(*args)
            self.values.update(inner.values)
            return result
        names, program = self.programs[target]
        result, values = program(*args)
        self.values.update(zip(names, values, strict=True))
        return result


def _with_all_values(part: GraphModule) -> tuple[list[str], EnginePart]:
    """A part that also gives the values of the nodes that are named."""
    known = {node: node.meta[VALUE] for node in part.graph.nodes if node.op != "output"}
    steps = [n for n, value in known.items() if n.op not in ("placeholder", "get_attr") and torch.is_tensor(value)]
    output = part.graph.output_node()
    output.args = ((output.args[0], list(steps)),)
    part.recompile()
    exported, problems = convert(part, known, "stage")
    if exported is None:
        raise RuntimeError(next(iter(problems.values())).text)
    return [node.meta[ORIGIN] for node in steps], EnginePart(exported, get(DEFAULT).build(exported, BuildOptions()))


def _parts_values(prepared: Prepared) -> Values:
    parts = _Parts(prepared)
    with torch.no_grad():
        parts.run(*copied(prepared.captured.tensors))
    return parts.values


def _calls(model: torch.nn.Module, inputs: Inputs) -> Values:
    """What each call of each module gives in eager, by `_call`."""
    found: Values = {}
    counts: dict[str, int] = {}
    hooks = []

    def kept(path: str) -> Callable[..., None]:
        def hook(module: Any, given: Any, result: Any) -> None:
            counts[path] = counts.get(path, -1) + 1
            found[f"{path}@{counts[path]}" if counts[path] else path] = copied(result)

        return hook

    try:
        hooks += [each.register_forward_hook(kept(path or _WHOLE)) for path, each in model.named_modules()]
        with torch.no_grad():
            inputs.call(model, copied(inputs.tensors))
    finally:
        for each in hooks:
            each.remove()
    return found


def _call(node: Node) -> str:
    """Which call of which module gives a node's value, such as ``layer1.0.relu@1`` for the second one; empty where
    none does."""
    stack = node.meta.get("nn_module_stack") or {}
    if node.op == "output":
        return _WHOLE
    return str([*stack][-1]) if node.op == "call_module" and stack else ""


def _lines(found: Stages) -> list[str]:
    """For people: how the stages map, and the nodes of the first with what became of them."""
    lines = [f"{found.model}:"]
    for stage in found.stages:
        said = stage.problem or f"{len(stage.steps)} nodes, {stage.mapped} of them known from the first stage"
        if found.compared and not stage.problem:
            apart = max((step.max_rel for step in stage.steps if step.max_rel is not None), default=None)
            if apart is not None:
                far = f"at most {apart:.1e} from eager"
                said += f"; {far if math.isfinite(apart) else 'in places only one of it and eager is finite'}"
            said += f"; diverges first at {stage.diverges}" if stage.diverges else ""
        lines.append(f"  {stage.name}: {said}")
    shown = [stage for stage in found.stages if stage.steps]
    lines += ["", "  ".join(f"{stage.name:<28}" for stage in shown).rstrip()]
    for name in (step.name for step in shown[0].steps):
        cells = []
        for stage in shown:
            steps = [step for step in stage.steps if name in step.origins]
            far = "  !" if any(step.name == stage.diverges for step in steps) else ""
            text = ", ".join(step.name if stage is shown[0] else step.target for step in steps)
            cells.append(f"{text[: 28 - len(far)]}{far}".ljust(28))
        lines.append("  ".join(cells).rstrip())
    return lines
