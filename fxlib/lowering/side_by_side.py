"""A model in each of its forms on the way to an engine, node by node: traced, exported, fused or quantized, as ONNX,
and as an engine runs it.

Each node of a later stage has its origins in the first one and, if the stages are run, its difference from eager.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import tensors_in
from fxlib.ir.span import Span
from fxlib.lowering import forms
from fxlib.lowering.capture import CAPTURES, capture, check_model, export, first_line
from fxlib.lowering.difference import APART, difference
from fxlib.lowering.engine import EngineError
from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.forms import Form, Parts, Step
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.places import path_of, span_of
from fxlib.lowering.runs import Values, call_of, of_graph, of_modules

TOLERANCE = 1e-3
"""A value that differs more from eager than this, relative to the largest magnitude there, has diverged."""
QUANTIZED_TOLERANCE = 0.1
"""The same for a quantized model: with 8 bits alone, most values differ by more than `TOLERANCE`."""


@dataclass
class Stage:
    """One form of the model; ``problem`` says why there is none, ``note`` is a remark about its values."""

    name: str
    steps: list[Step] = field(default_factory=list)
    problem: str | None = None
    note: str | None = None
    tolerance: float = TOLERANCE

    @property
    def mapped(self) -> int:
        """The number of steps with origins."""
        return sum(bool(step.origins) for step in self.steps)

    @property
    def diverges(self) -> str | None:
        """The first step whose difference from eager exceeds the stage's tolerance."""
        return next((step.name for step in self.steps if (step.max_rel or 0.0) > self.tolerance), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "steps": [step.as_dict() for step in self.steps], "problem": self.problem,
            "note": self.note, "mapped": self.mapped, "diverges": self.diverges,
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
    quantize: bool = False,
    engine: str = DEFAULT,
    say: Callable[[str, float], None] = lambda stage, done: None,
) -> Stages:
    """The stages of a model.

    Args:
        model: a module in evaluation mode.
        example_inputs, concrete_args: see `lower`.
        traced: its trace, if there is one already.
        compare: run each stage on the example, and compare its values with eager's.
        quantize: show the model quantized instead of fused, also for ONNX and the engine.
        engine: the name of the engine at the end; `fxlib.lowering.table()` has them.
        say: called with the stage's name and the fraction done.

    Raises:
        EngineError: the engine is not available here.
        CaptureError: neither torch.fx nor torch.export captures the model.
        TypeError, ValueError: see `lower`.
        ValueError: it is to be compared, and fails on the example.
    """
    check_model(model, "stages()")
    last = get(engine)
    if missing := last.missing():
        raise EngineError(f"cannot show what {last.label} runs: {missing}")
    say("capture", 0.0)
    inputs = Inputs(model.forward, example_inputs, None, concrete_args, "stages()")
    given = inputs if traced is None else Inputs(traced.forward, example_inputs, caller="stages()")
    first = capture(model if traced is None else traced, given)
    begin = forms.captured(first)
    nodes = begin.nodes()
    eager: Values = {}
    if compare:
        called = _running("the model itself", lambda: of_modules(model, inputs))
        ran = _running("its graph", lambda: of_graph(first.gm, first.tensors))
        known = {node.name: called[key] for node in nodes if (key := call_of(node)) in called}
        eager = {**ran, **known}
        _compare(Form([*begin.steps.values()], {name: (ran[name], name) for name in known}), eager)
    found = [Stage(CAPTURES[first.by], [*begin.steps.values()])]

    def stage(name: str, make: Callable[[], Form], tolerance: float = TOLERANCE) -> None:
        try:
            made = make()
            _compare(made, eager)
            found.append(Stage(name, made.steps, None, made.note, tolerance))
        except Exception as error:
            found.append(Stage(name, problem=first_line(error)))

    before, tolerance = begin, TOLERANCE
    if first.by == "fx":
        say("export", 0.1)
        stage(CAPTURES["export"], lambda: forms.exported(export(model, inputs), first, compare))
        say("quantize" if quantize else "fuse", 0.4)
        if quantize:
            changed = cache(lambda: forms.quantized(first, last))
            stage("quantized", lambda: forms.form(changed(), compare), QUANTIZED_TOLERANCE)
            if found[-1].problem is None:
                before, tolerance = changed(), QUANTIZED_TOLERANCE
        else:
            stage("fused", lambda: forms.form(forms.fused(first), compare))
    else:
        found.insert(0, Stage(CAPTURES["fx"], problem=first.refused))
        if quantize:
            found.append(Stage("quantized", problem="only what torch.fx traces is quantized here"))
    parts = cache(lambda: Parts(before, given))
    say("convert", 0.6)
    stage("ONNX", lambda: parts().onnx(compare), tolerance)
    say(f"build for {last.label}", 0.8)
    stage(last.label, lambda: parts().built(last, compare), tolerance)
    say("done", 1.0)
    places = {node.name: (span_of(node), path_of(node)) for node in nodes}
    return Stages(type(model).__name__, compare, found, places)


def _running(what: str, values: Callable[[], Values]) -> Values:
    try:
        return values()
    except Exception as error:
        raise ValueError(f"{what} fails on the example inputs: {first_line(error)}") from error


def _compare(form: Form, eager: Values) -> None:
    for step in form.steps:
        got, origin = form.values.get(step.name, (None, ""))
        expected = eager.get(origin)
        shapes = [[each.shape for each in tensors_in(value)] for value in (got, expected)]
        if shapes[0] and shapes[0] == shapes[1]:
            step.max_abs, step.max_rel = difference(tensors_in(expected), tensors_in(got))


def _lines(found: Stages) -> list[str]:
    """As text: how the stages map, and the nodes of the first with their counterparts."""
    lines = [f"{found.model}:"]
    for stage in found.stages:
        said = stage.problem or f"{len(stage.steps)} nodes, {stage.mapped} of them known from the first stage"
        said += f" ({stage.note})" if stage.note else ""
        if found.compared and not stage.problem:
            apart = max((step.max_rel for step in stage.steps if step.max_rel is not None), default=None)
            if apart is not None:
                far = f"at most {apart:.1e} from eager"
                said += f"; {far if math.isfinite(apart) else f'in places {APART}'}"
            said += f"; diverges first at {stage.diverges}" if stage.diverges else ""
        lines.append(f"  {stage.name}: {said}")
    shown = [stage for stage in found.stages if stage.steps]
    lines += ["", "  ".join(f"{stage.name:<28}" for stage in shown).rstrip()]
    for name in (step.name for step in shown[0].steps):
        cells = []
        for stage in shown:
            steps = [step for step in stage.steps if name in step.origins]
            far = "  !" if any(step.name == stage.diverges for step in steps) else ""
            texts = [step.target if step.at == name else f"in {step.at}" for step in steps]
            text = name if stage is shown[0] else ", ".join(dict.fromkeys(texts))
            cells.append(f"{text[: 28 - len(far)]}{far}"[:28].ljust(28))
        lines.append("  ".join(cells).rstrip())
    return lines
