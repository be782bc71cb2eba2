"""Lowers a model to an engine, and saves it if a folder is named; or makes a preview of that.

A preview needs neither the engine nor data, so it runs in a fork, like a trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxlens.answers import LowerResult
from fxlens.host.failures import explain
from fxlens.host.outcome import Failed, WorkerUnavailable
from fxlens.ipc.protocol import Data, Json
from fxlens.ipc.request import Request

from . import lowering_hints

if TYPE_CHECKING:
    from fxlens.host.pool import Pool
    from fxlens.worker.job import Job
    from fxlens.worker.one_model import Model
    from fxlib.lowering.report import LoweringReport

TITLE = "Lowering"
_EXPORT_SECONDS = 60.0


# In the user's interpreter


def work(job: Job) -> None:
    """With ``preview`` among the options: a preview."""
    from fxlens.worker import one_model, user_file
    from fxlib.diagnosis.fixes.loaded import Loaded

    options = job.message["options"]
    known = Loaded()
    if options.get("preview") is True:
        one_model.answer(job, lambda: _preview(job, options))
        job.send("end", third_party=[*user_file.imported_files(known)[1], *lowering_hints.imported(known)])
    else:
        one_model.answer(job, lambda: _lower(job, options))


def _preview(job: Job, options: Mapping[str, Any]) -> LowerResult:
    from importlib.util import find_spec

    from fxlens.worker import one_model

    if find_spec("onnx_ir") is None:
        raise one_model.Refused(f"{sys.executable} has no onnx_ir; `pip install 'fxlens[lower]'` adds it")
    from fxlib.lowering.capture import CaptureError
    from fxlib.lowering.engine import EngineError
    from fxlib.lowering.engines import DEFAULT
    from fxlib.lowering.unbuilt import preview

    model = one_model.make(job, real=False)
    job.step("preview", model.target)

    def say(text: str, fraction: float) -> None:
        job.send("progress", text=text, fraction=fraction)

    try:
        report = preview(
            *_captured(model), engine=options.get("engine") or DEFAULT, **_chosen(model, options), progress=say
        )
    except CaptureError as error:
        raise _not_captured(error) from None
    except (EngineError, ValueError, TypeError) as error:
        raise one_model.Refused(str(error)) from None
    return _result(model, report, None)


def _lower(job: Job, options: Mapping[str, Any]) -> LowerResult:
    from fxlens.worker import one_model, outputs
    from fxlib.lowering.capture import CaptureError
    from fxlib.lowering.engine import BuildOptions, EngineError
    from fxlib.lowering.engines import DEFAULT, get

    name = options.get("engine") or DEFAULT
    try:
        engine = get(name)
    except EngineError as error:
        raise one_model.Refused(str(error)) from None
    if missing := engine.missing():
        raise one_model.Refused(f"Cannot lower to {engine.label}: {missing}")
    if out := options.get("out"):
        from fxlib.lowering.store import sealed

        with outputs.writing(out):  # only the command line saves
            advice = "Choose another one, or replace it with --force"
            outputs.check_folder(out, options.get("force") is True or sealed(Path(out)), advice)
    from fxlib.lowering.lowered import lower

    model = one_model.make(job, real=True)
    say = one_model.progress(job, model.target)
    try:
        lowered = lower(
            *_captured(model),
            engine=name,
            **_chosen(model, options),
            options=BuildOptions(threads=options.get("threads"), timeout_s=job.deadline),
            progress=say,
        )
    except CaptureError as error:
        raise _not_captured(error) from None
    except (EngineError, ValueError) as error:
        raise one_model.Refused(str(error)) from None
    if engine.lists_kernels:
        lowered.list_kernels()
    if out:
        with outputs.writing(out):
            lowered.save(out)
    return _result(model, lowered.report, out)


def _not_captured(error: Exception) -> Exception:
    from fxlens.worker import one_model

    return one_model.Refused(f"{error}. {one_model.WHERE}")


def _captured(model: Model) -> tuple[Any, Any]:
    """The model's trace and its inputs; if it has none, the model itself, which torch.export may capture."""
    from fxlens.worker import one_model

    try:
        return model.traced(), model.inputs
    except one_model.Refused:
        if model.tracer is not None:
            raise
    if not model.concrete:
        return model.module, model.inputs
    return model.module, _arguments(model)


def _chosen(model: Model, options: Mapping[str, Any]) -> dict[str, Any]:
    from fxlens.worker import specified

    dynamic = (specified.dimensions(model.shapes, _arguments(model)) or True) if options.get("dynamic") else None
    return {"precision": options.get("precision") or "fp32", "dynamic": dynamic}


def _arguments(model: Model) -> dict[str, Any]:
    names = inspect.signature(model.module.forward).parameters
    given = model.inputs if isinstance(model.inputs, dict) else dict(zip(names, model.inputs, strict=False))
    return {**given, **model.concrete}


def _result(model: Model, report: LoweringReport, saved: str | None) -> LowerResult:
    from fxlens.worker import one_model

    report.model = model.name
    return {
        "report": report.as_dict(), "text": str(report), "target": model.name, "saved": saved,
        "located": [one_model.located(each.node, each.span, each.call_path) for each in report.layers],
    }  # fmt: skip


# On the server


async def preview(
    pool: Pool, request: Request, target: str | None, options: Data, exported: bool, say: Callable[[str, float], None]
) -> LowerResult:
    """A preview of lowering a model.  Cancelling the task ends its process.

    Args:
        exported: whether torch.fx is known not to trace it, so that torch.export is used, which needs torch's compiler.
        say: called with the stage and the fraction done.

    Raises:
        Failed: it was refused, or its process died.
    """
    found: list[LowerResult] = []
    failure = ""

    def collect(event: Json) -> None:
        nonlocal failure
        if event.get("event") == "progress":
            say(event["text"], event["fraction"])
        elif event.get("event") == "result":
            found.append(event["result"])
        elif event.get("event") in ("refused", "failed"):
            failure = event["message"]

    limits = request.limits
    if exported:
        limits = replace(limits, deadline=max(limits.deadline, _EXPORT_SECONDS))
    message = replace(request, limits=limits).message("lower", target=target, options={**options, "preview": True})
    try:
        outcome = await pool.run(message, limits, collect, captures=exported)
    except WorkerUnavailable as error:
        raise Failed(str(error)) from None
    if not found:
        raise Failed(failure or explain(outcome, request)["message"])
    return found[0]
