"""The forms of a model between its trace and an engine: their steps, the nodes of the first form that each step comes
from, and their values.

Each form is made from the one before it, so origins are passed from step to step.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fxlib.ir.leaves import copied
from fxlib.ir.node import Node
from fxlib.ir.spelling import spelling
from fxlib.lowering.capture import Captured, with_own_graph
from fxlib.lowering.difference import told
from fxlib.lowering.engine import BuildOptions, Engine, Kernel
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.kernels import described
from fxlib.lowering.origins import origins
from fxlib.lowering.places import path_of, span_of
from fxlib.lowering.prepare import prepare_captured
from fxlib.lowering.runs import Values, of_graph, of_onnx, of_parts, of_programs
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.quantize import quantize_static
from fxlib.passes.quantize.functions import dequantize, dequantize_weight, quantize, quantize_symmetric
from fxlib.shapes import propagate

_TO_INT8 = (quantize, quantize_symmetric)
_INT8 = (*_TO_INT8, dequantize, dequantize_weight)

Known = tuple[Any, str]
"""A value, and the node of the first stage that has the same one in eager."""


@dataclass
class Step:
    """A node of a stage. ``origins`` are nodes of the first stage; empty if the stage added it."""

    name: str
    target: str
    origins: list[str]
    at: str = ""
    """The origin at which it is shown (by default the first); the others were fused with that."""
    max_abs: float | None = None
    """The largest difference from eager; None if there is nothing to compare, infinite if only one has NaN or an
    infinity."""
    max_rel: float | None = None
    """The same, relative to the largest magnitude there."""

    def __post_init__(self) -> None:
        self.at = self.at or next(iter(self.origins), "")

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "max_abs": told(self.max_abs), "max_rel": told(self.max_rel)}


@dataclass
class Form:
    """The steps of a stage, and what was computed in it, by the names of the steps."""

    steps: list[Step]
    values: dict[str, Known] = field(default_factory=dict)
    note: str | None = None
    """A remark about the values."""


@dataclass
class Described:
    """A graph whose nodes are the steps of a stage; later stages are made from it."""

    captured: Captured
    steps: dict[str, Step]

    def nodes(self) -> list[Node]:
        return [node for node in self.captured.gm.graph.nodes if is_step(node)]

    def values(self, found: Values) -> dict[str, Known]:
        """The values by node name that also exist in eager. Integers are replaced by their dequantized values."""
        result = {}
        for node in self.nodes():
            value, step = found.get(node.name), self.steps[node.name]
            if value is None or not step.origins or _of_parameter(node):
                continue
            if node.target in _TO_INT8:
                value = dequantize(value, *node.args[1:])
            result[node.name] = value, step.origins[-1]
        return result


def is_step(node: Node) -> bool:
    """Parameters are not steps; they belong to their users."""
    return node.op != "get_attr"


def _of_parameter(node: Node) -> bool:
    """Whether it only rounds a parameter, which is not a step in eager."""
    while node.target in _INT8:
        node = node.args[0]  # type: ignore[assignment]
    return node.op == "get_attr"


def captured(first: Captured) -> Described:
    """The first stage."""
    nodes = filter(is_step, first.gm.graph.nodes)
    return Described(first, {node.name: Step(node.name, spelling(node), [node.name]) for node in nodes})


def quantized(first: Captured, engine: Engine) -> Described:
    """The model in the engine's exchange form, calibrated on the example: quantize and dequantize nodes precede the
    operators that compute on 8 bits. They originate from the node whose value they convert; those of a parameter, from
    its user.

    Raises:
        TypeError, ValueError: as `quantize_static`.
    """
    before = fused(first)
    data = [copied(tuple(first.tensors))]
    changed = quantize_static(before.captured.gm, data, form="qdq", engine=engine.name)
    steps: dict[str, Step] = {}
    for node in filter(is_step, changed.graph.nodes):
        known, target = before.steps.get(node.name), spelling(node)
        if node.target in _INT8:
            known = steps.get(node.args[0].name) or before.steps[_taker(node).name]  # type: ignore[union-attr]
            target = node.target.__name__  # type: ignore[union-attr]
        steps[node.name] = Step(node.name, target, known.origins if known else [])
    return Described(replace(first, gm=changed), steps)


def _taker(node: Node) -> Node:
    """The node that computes on the value that a node rounds."""
    while node.target in _INT8:
        node = next(iter(node.users))
    return node


def fused(first: Captured) -> Described:
    """The model with batch norms fused into the convolutions and linear layers before them."""
    changed = copy.deepcopy(first.gm)
    propagate(changed, *first.tensors)  # linear layers are fused only with known shapes
    fuse_conv_bn(changed)
    norms = {each.layer: each.norm for each in changed.meta["fuse_conv_bn"].fused}
    known = {node.name for node in first.gm.graph.nodes}
    steps = {}
    for node in filter(is_step, changed.graph.nodes):
        own = [node.name] if node.name in known else []
        norm = [norms[node.name]] if node.name in norms else []
        steps[node.name] = Step(node.name, spelling(node), [*own, *norm])
    return Described(replace(first, gm=changed), steps)


def form(made: Described, compare: bool) -> Form:
    """A graph as a form, by its own nodes."""
    values = made.values(of_graph(made.captured.gm, made.captured.tensors)) if compare else {}
    return Form([*made.steps.values()], values)


def exported(program: Captured, first: Captured, compare: bool) -> Form:
    """The model as exported by torch.export."""
    nodes = [node for node in program.gm.graph.nodes if is_step(node)]
    found = origins([node for node in first.gm.graph.nodes if is_step(node)], nodes)
    steps = [Step(node.name, spelling(node), [found.of[node.name]] if node.name in found.of else []) for node in nodes]
    ran = of_graph(program.gm, program.tensors) if compare else {}
    return Form(steps, {name: (ran[name], origin) for origin, name in found.values.items() if name in ran})


class Parts:
    """A form in parts: converted ones, as ONNX or as built by an engine, and the nodes between them that stay in
    PyTorch."""

    def __init__(self, before: Described, inputs: Inputs) -> None:
        self.before = before
        self.prepared = prepare_captured(inputs, replace(before.captured, gm=with_own_graph(before.captured.gm)))
        known = {(node.name, node.op, node.target) for node in before.nodes()}
        # The nodes of an inlined library function replace it, and have other values.
        at = {(span, path_of(node)): node.name for node in before.nodes() if (span := span_of(node)) is not None}
        self.own: dict[str, str] = {}
        """Node -> its origin in the form before."""
        self.same: set[str] = set()
        """The nodes that are the same as their origin."""
        for node in self.prepared.captured.gm.graph.nodes:
            if (node.name, node.op, node.target) in known:
                self.own[node.name] = node.name
                self.same.add(node.name)
            elif (span := span_of(node)) is not None and (name := at.get((span, path_of(node)))):
                self.own[node.name] = name

    def onnx(self, compare: bool) -> Form:
        """The nodes of the ONNX models, each computed separately."""
        nodes = {
            name: [described(each, str(node.name), node.op_type, [node]) for node in each.model.graph]
            for name, each in self.prepared.exports.items()
        }
        return self._form(nodes, of_parts(self.prepared, of_onnx(self.prepared)) if compare else {})

    def built(self, engine: Engine, compare: bool) -> Form:
        """The kernels of an engine.

        Raises:
            EngineError: it rejects the model.
        """
        programs = {name: engine.build(each, BuildOptions()) for name, each in self.prepared.exports.items()}
        cannot = next((program.info["cannot_run"] for program in programs.values() if "cannot_run" in program.info), "")
        runs = compare and not cannot
        ran = of_parts(self.prepared, of_programs(self.prepared, programs)) if runs else {}
        made = self._form({name: program.kernels() for name, program in programs.items()}, ran)
        if compare and programs and not engine.shows_values:
            made.note = cannot or f"{engine.label} gives no values between its kernels: only its results are compared"
        return made

    def _form(self, kernels: Mapping[str, Sequence[Kernel]], ran: Values) -> Form:
        known = {name: value for name, value in self.before.values(ran).items() if name in self.same}
        ends = [self.before.steps[node.name] for node in self.before.nodes() if node.op in ("placeholder", "output")]
        made = Form([replace(step) for step in ends[:-1]])
        for part in self.prepared.cut.parts:
            for name in () if part.engine else part.nodes:
                made.steps.append(self._step(name, "PyTorch", [name], name))
                if name in known:
                    made.values[name] = known[name]
            if not part.engine:
                continue
            ends_with = self.prepared.exports[part.name].ends
            for kernel in kernels[part.name]:
                name = f"{part.name}: {kernel.name}" if len(kernels) > 1 else kernel.name
                made.steps.append(self._step(name, kernel.kind, kernel.nodes, kernel.main))
                given = [known[ends_with[each]] for each in kernel.onnx if ends_with.get(each) in known]
                if given:
                    made.values[name] = given[-1]
        made.steps.append(replace(ends[-1]))
        made.values.update((step.name, known[step.name]) for step in ends if step.name in known)
        return made

    def _step(self, name: str, target: str, nodes: Sequence[str], main: str) -> Step:
        steps = [self.before.steps[self.own[each]] for each in nodes if each in self.own]
        found = dict.fromkeys(origin for step in steps for origin in step.origins)
        at = self.before.steps[self.own[main]].at if main in self.own else ""
        return Step(name, target, [*found], at)
