"""Constructs one model of a file with its inputs, for the jobs that lower, time, estimate, compare or run it, or
apply passes to it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fxlens import record
from fxlens.record import Located
from fxlens.sources.targets import Target

from . import candidates, construct, example_inputs, own_tracer, parts, specified, user_file
from .errors import brief
from .job import Job

WHERE = "The problems in the editor, or `fxlens check`, show where"


class Refused(Exception):
    """The job cannot be done; the text says why and what to do."""


@dataclass(frozen=True)
class Model:
    """A model in evaluation mode, its example inputs and its constant arguments, and its project's tracer."""

    module: Any
    inputs: example_inputs.Values
    concrete: dict[str, Any]
    target: Target
    tracer: own_tracer.OwnTracer | None
    leaf_modules: tuple[str, ...]
    shapes: specified.Said
    """Its ``dynamic_shapes`` from the file."""

    @property
    def in_order(self) -> tuple[Any, ...]:
        """The example inputs as its graph takes them."""
        return example_inputs.in_order(self.inputs)

    @property
    def name(self) -> str:
        return self.target.name

    def traced(self) -> Any:
        """Its GraphModule. Raises Refused if it has none."""
        given = self.module, self.inputs, self.concrete, self.tracer, self.leaf_modules
        try:
            return own_tracer.graph_module(*given).eval()
        except (Exception, SystemExit) as error:
            by = f" by the project's tracer {self.tracer.name}" if self.tracer else ""
            text = f"{self.name} cannot be traced{by}: {brief(error)}. {WHERE}"
            raise Refused(text) from error


def answer(job: Job, request: Callable[[], Mapping[str, object]]) -> None:
    """Sends ``result`` with the request's result, or ``refused`` with a sentence for the user."""
    try:
        result = request()
    except Refused as refusal:
        job.send("refused", message=str(refusal))
    else:
        job.send("result", result=result)


def make(job: Job, real: bool) -> Model:
    """The model that the job names, or the last of the file; with data if ``real``. Raises Refused."""
    try:
        tree = ast.parse(job.text)
    except SyntaxError as error:
        raise Refused(f"{job.path}:{error.lineno}: Python cannot parse the file: {error.msg}") from None
    job.step("import")
    try:
        namespace = user_file.load(job.path, job.text, job.folder, job.overlays)
    except Exception as error:
        raise Refused(f"{job.path} cannot be imported: {brief(error)}") from error
    target = _choose(job, namespace, candidates.find(job, tree).targets)
    job.step("construct", target)
    made = _made(namespace, target, real)
    inputs = _inputs(namespace, target, made)
    module, values = made.module.eval(), inputs.values or ()
    shapes = specified.read(namespace, target.name)
    return Model(module, values, inputs.concrete or {}, target, job.tracer, job.leaf_modules, shapes)


def _choose(job: Job, namespace: Any, found: list[Target]) -> Target:
    models = [target for target in found if construct.is_model(namespace, target)]
    wanted = job.message["target"]
    if not models:
        raise Refused(f"{job.path} defines no model: no class derived from nn.Module with a forward")
    for target in models:
        if target.name == wanted:
            return target
    if wanted:
        raise Refused(f"{job.path} has no model {wanted}; its models: {', '.join(t.name for t in models)}")
    return models[-1]


def _made(namespace: Any, target: Target, real: bool) -> construct.Made:
    try:
        made = parts.make(namespace, target)
        return construct.make_real(namespace, made) if real and made.meta else made
    except construct.CannotConstruct as error:
        raise Refused(
            f"{target.name} cannot be constructed: {error}. Write `# fxlens: {target.name}(...)` above its class"
        ) from None


def _inputs(namespace: Any, target: Target, made: construct.Made) -> example_inputs.Inputs:
    from fxlib.diagnosis.diagnose import graph_of

    try:
        inputs = example_inputs.make(namespace, target, made)
        if inputs is None or inputs.values is None:
            inputs = example_inputs.infer(namespace, made, inputs, graph_of(made.module))
    except example_inputs.CannotUseInputs as error:
        raise Refused(f"The example inputs of {target.name} do not fit: {error}") from None
    if inputs is None or inputs.values is None:
        raise Refused(
            f"{target.name} has no example inputs; write them above its class, for instance "
            f"`# fxlens: {made.source.text} <- torch.randn(1, 3, 224, 224)`"
        )
    return inputs


def progress(job: Job, target: Target) -> Callable[[str, float], None]:
    """Reports the job's progress; each stage has its own deadline."""

    def say(text: str, fraction: float) -> None:
        job.step(text, target)
        job.send("progress", text=text, fraction=round(fraction, 4))

    return say


def located(name: str, span: tuple | None, call_path: Iterable[tuple]) -> Located:
    """A node of a result and its place in the source; reports have spans as tuples."""
    path = [record.span(*each) for each in call_path]
    return {"name": name, "span": record.span(*span) if span else None, "call_path": path}
