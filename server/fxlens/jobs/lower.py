"""Lowers a model to an engine, and saves it where a folder is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxlens.answers import LowerResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Lowering"


def work(job: Job) -> None:
    from fxlens.worker import one_model

    one_model.answer(job, lambda: _lower(job, job.message["options"]))


def _lower(job: Job, options: Mapping[str, Any]) -> LowerResult:
    from fxlens.worker import one_model, outputs, specified
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
        try:
            outputs.check_folder(out, {"manifest.json": b'{"format"', "seal.json": b"{"}, options.get("force") is True)
        except outputs.NotOurs as error:
            raise one_model.Refused(str(error)) from None
    from fxlib.lowering.lowered import lower

    model = one_model.make(job, real=True)
    say = one_model.progress(job, model.target)
    traced = model.traced()
    try:
        lowered = lower(
            traced,
            model.inputs,
            engine=name,
            precision=options.get("precision", "fp32"),
            dynamic=(specified.dimensions(model.shapes) or True) if options.get("dynamic") else None,
            options=BuildOptions(threads=options.get("threads"), timeout_s=job.deadline),
            progress=say,
        )
    except (EngineError, ValueError) as error:
        raise one_model.Refused(str(error)) from None
    report = lowered.report
    report.model = model.name
    if engine.lists_kernels:
        lowered.list_kernels()
    if options.get("out"):
        lowered.save(Path(options["out"]))
    return {
        "report": report.as_dict(), "text": str(report), "target": model.name, "saved": options.get("out"),
        "located": [one_model.located(each.node, each.span, each.call_path) for each in report.layers],
    }  # fmt: skip
