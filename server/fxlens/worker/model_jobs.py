"""Jobs that need one model for real: lower it to an engine, time its variants, estimate its cost.

Run in the user's interpreter, in a fresh process with all threads and devices: standard library, torch and fxlib. Each
announces its progress as ``{"event": "progress", "text", "fraction"}`` and ends with ``{"event": "result", ...}`` or
``{"event": "refused", "message"}``, a sentence for the user.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxlens.sources import from_tests
from fxlens.sources import targets as text_targets

from . import construct, user_file

if TYPE_CHECKING:
    from fxlens.sources.targets import Target

    from .job import Job


class Refused(Exception):
    """The job cannot be done; the text says why and what to do."""


def _job(work: Any) -> Any:
    def run(job: Job) -> None:
        try:
            result = work(job, job.message.get("options") or {})
        except Refused as refusal:
            job.channel.send({"event": "refused", "message": str(refusal)})
            return
        job.channel.send({"event": "result", **result})

    return run


def _model(job: Job, real: bool, need_inputs: bool = True) -> tuple[Any, tuple[Any, ...], dict[str, Any], Target]:
    """The model in evaluation mode, its example inputs, its constant arguments."""
    try:
        tree = ast.parse(job.text)
    except SyntaxError as error:
        raise Refused(f"{job.path}:{error.lineno}: Python cannot parse the file: {error.msg}") from None
    job.step("import")
    try:
        namespace = user_file.load(job.path, job.text, job.message.get("folder"), job.message.get("overlays") or {})
    except Exception as error:
        raise Refused(f"{job.path} cannot be imported: {construct.brief(error)}") from error
    found = text_targets.find(tree, job.text)
    text_targets.configure(found, job.message.get("config_targets") or {})
    from_tests.add(found, tree, job.path, job.message.get("folder"), job.read)
    target = _choose(job, namespace, found)
    job.step("construct", target)
    from fxlib.diagnosis.diagnose import diagnose

    try:
        made = construct.make(namespace, target, real=real)
    except construct.CannotConstruct as error:
        raise Refused(
            f"{target.name} cannot be constructed: {error}. Write `# fxlens: {target.name}(...)` above its class"
        ) from None
    try:
        inputs = construct.make_inputs(namespace, target, made)
        if inputs is None or inputs.values is None:
            inputs = construct.infer_inputs(namespace, made, inputs, diagnose(made.module, None).graph)
    except construct.CannotUseInputs as error:
        raise Refused(f"the example inputs of {target.name} do not fit: {error}") from None
    if (inputs is None or inputs.values is None) and need_inputs:
        raise Refused(
            f"{target.name} has no example inputs; write them above its class, for instance "
            f"`# fxlens: {made.source.text} <- torch.randn(1, 3, 224, 224)`"
        )
    values = inputs.values if inputs and inputs.values is not None else ()
    return made.module.eval(), values, (inputs.concrete if inputs else None) or {}, target


def _choose(job: Job, namespace: Any, found: list[Target]) -> Target:
    models = [target for target in found if construct.is_model(namespace, target)]
    wanted = job.message.get("target")
    if not models:
        raise Refused(f"{job.path} defines no model: no class derived from nn.Module with a forward")
    for target in models:
        if target.name == wanted:
            return target
    if wanted:
        raise Refused(f"{job.path} has no model {wanted}; its models: {', '.join(t.name for t in models)}")
    return models[-1]


def _progress(job: Job, target: Target) -> Any:
    def say(text: str, fraction: float) -> None:
        job.step(text, target)  # the deadline counts anew from each stage
        job.channel.send({"event": "progress", "text": text, "fraction": round(fraction, 4)})

    return say


def _traced(module: Any, concrete: dict[str, Any], name: str) -> Any:
    import fxlib

    try:
        return fxlib.symbolic_trace(module, concrete_args=concrete or None).eval()
    except Exception as error:
        raise Refused(
            f"{name} cannot be traced: {construct.brief(error)}. `fxlens check` shows what to mend"
        ) from error


def lower(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """Lowers the model; saves it where ``options["out"]`` names a folder."""
    from fxlib.lowering.engine import BuildOptions, EngineError
    from fxlib.lowering.engines import DEFAULT, get

    name = options.get("engine") or DEFAULT
    try:
        engine = get(name)
    except EngineError as error:
        raise Refused(str(error)) from None
    if missing := engine.missing():
        raise Refused(f"cannot lower to {engine.label}: {missing}")
    from fxlib.lowering.lowered import lower as lower_model

    module, inputs, concrete, target = _model(job, real=True)
    say = _progress(job, target)
    gm = _traced(module, concrete, target.name)
    try:
        lowered = lower_model(
            gm,
            inputs,
            engine=name,
            precision=options.get("precision", "fp32"),
            dynamic=True if options.get("dynamic") else None,
            options=BuildOptions(threads=options.get("threads"), timeout_s=job.deadline),
            progress=say,
        )
    except (EngineError, ValueError) as error:
        raise Refused(str(error)) from None
    lowered.report.model = target.name
    lowered.list_kernels()
    if options.get("out"):
        lowered.save(Path(options["out"]))
    return {
        "report": lowered.report.as_dict(),
        "text": str(lowered.report),
        "target": target.name,
        "saved": options.get("out"),
    }


def engines(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The engines that models can be lowered to in this interpreter; runs none of the user's code."""
    from fxlib.lowering.engines import table

    return {"engines": [engine.as_dict() for engine in table().values()]}


def bench(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """Times the model's variants in one run."""
    from fxlib.benchmark import benchmark

    module, inputs, concrete, target = _model(job, real=True)
    if concrete:
        module = _traced(module, concrete, target.name)
    try:
        report = benchmark(
            module,
            inputs,
            options.get("variants"),
            without=options.get("without") or (),
            batches=options.get("batches"),
            threads=options.get("threads"),
            rounds=options.get("rounds", 15),
            seconds=options.get("seconds", 60.0),
            progress=_progress(job, target),
        )
    except KeyError as error:
        raise Refused(str(error.args[0])) from None
    report.model = target.name
    text = report.table()
    if layers := report.layers_text(options.get("layers", 10)):
        text += f"\n\n{layers}"
    return {"report": report.as_dict(), "text": text, "svg": report.svg(), "target": target.name}


def estimate(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """Operations, bytes, memory and roofline time of one run, by node; nothing is computed."""
    from fxlib.passes.cost import estimate as estimate_cost
    from fxlib.passes.devices import DEVICES, calibrated_cpu

    module, inputs, concrete, target = _model(job, real=False)
    gm = _traced(module, concrete, target.name)
    name = options.get("device")
    if name is not None:
        name = next((known for known in DEVICES if known.lower() == name.lower()), name.lower())
    if name is not None and name != "cpu" and name not in DEVICES:
        raise Refused(
            f"there is no device {name!r} in the table; known are {', '.join(DEVICES)} and cpu (measured here)"
        )
    told = estimate_cost(gm, *inputs, device=calibrated_cpu() if name == "cpu" else name)
    nodes = {node.name: node for node in gm.graph.nodes}
    rows = [
        {
            "name": n.name, "op": n.op, "target": n.target, "flops": n.flops, "read": n.read, "written": n.written,
            "parameters": n.parameters, "seconds": n.seconds,
            "line": nodes[n.name].span.line if nodes[n.name].span else None, "span": nodes[n.name].span,
            "call_path": list(nodes[n.name].call_path or ()),
        }
        for n in told.nodes
    ]  # fmt: skip
    totals = {
        "flops": told.flops, "bytes": told.bytes, "parameters": told.parameters, "peak_bytes": told.peak_bytes,
        "peak_node": told.peak_node, "seconds": told.seconds,
    }  # fmt: skip
    return {"target": target.name, "device": name, "totals": totals, "nodes": rows, "text": str(told)}


KINDS = {"lower": _job(lower), "engines": _job(engines), "bench": _job(bench), "estimate": _job(estimate)}
