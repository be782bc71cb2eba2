"""A model in each of its forms on the way to an engine, node by node, with each value's difference from eager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fxlens.answers import Engine, StagesReport, StagesResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Comparing the stages of"


def work(job: Job) -> None:
    from fxlens.worker import one_model

    one_model.answer(job, lambda: _stages(job, job.message["options"]))


def _stages(job: Job, options: Mapping[str, Any]) -> StagesResult:
    from fxlens.worker import one_model
    from fxlib.lowering.capture import CaptureError
    from fxlib.lowering.engine import EngineError
    from fxlib.lowering.engines import DEFAULT, get, table

    if missing := get(DEFAULT).missing():
        raise one_model.Refused(f"One of the stages is ONNX: {missing}")
    engine, quantize = options.get("engine") or DEFAULT, options.get("quantize") is True
    from fxlib.lowering.side_by_side import stages

    model = one_model.make(job, real=True)
    traced = None
    try:
        traced = model.traced()
    except one_model.Refused:
        if model.tracer is not None:
            raise
        # torch.export may still capture it; the stage of torch.fx says why it has no trace.
    try:
        found = stages(
            model.module,
            model.inputs,
            concrete_args=model.concrete or None,
            traced=traced,
            compare=options.get("compare") is True,
            quantize=quantize,
            engine=engine,
            say=one_model.progress(job, model.target),
        )
    except EngineError as error:
        raise one_model.Refused(str(error)) from None
    except (CaptureError, ValueError, TypeError) as error:
        raise one_model.Refused(f"{model.name} has no stages: {error}") from None
    found.model = model.name
    return {
        "target": model.name, "report": cast("StagesReport", found.as_dict()), "text": str(found),
        "quantize": quantize, "engine": engine,
        "engines": [cast("Engine", each.as_dict()) for each in table().values() if not each.missing()],
        "located": [one_model.located(name, *place) for name, place in found.places.items()],
    }  # fmt: skip
