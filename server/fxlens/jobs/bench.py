"""Times a model and its variants in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fxlens.answers import Benchmark, BenchResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Benchmarking"


def work(job: Job) -> None:
    from fxlens.worker import one_model

    one_model.answer(job, lambda: _bench(job, job.message["options"]))


def _bench(job: Job, options: Mapping[str, Any]) -> BenchResult:
    from fxlens.worker import one_model, own_tracer
    from fxlib.benchmark import benchmark

    model = one_model.make(job, real=True)
    try:
        report = benchmark(
            # A call by position, of the graph where the model does not take one.
            model.traced() if model.concrete or isinstance(model.inputs, dict) else model.module,
            model.in_order,
            options.get("variants"),
            without=options.get("without") or (),
            trace=model.traced if own_tracer.is_own(model.tracer, model.leaf_modules) else None,
            batches=options.get("batches"),
            threads=options.get("threads"),
            rounds=options.get("rounds", 15),
            seconds=options.get("seconds", 60.0),
            progress=one_model.progress(job, model.target),
        )
    except KeyError as error:
        raise one_model.Refused(str(error.args[0])) from None
    report.model = model.name
    text = report.table()
    if layers := report.layers_text(options.get("layers", 10)):
        text += f"\n\n{layers}"
    timed = next((row.layers for row in report.rows if row.layers), [])
    return {
        "report": cast("Benchmark", report.as_dict()), "text": text, "svg": report.svg(), "target": model.name,
        "located": [one_model.located(each["node"], each["span"], each["call_path"]) for each in timed],
    }  # fmt: skip
