"""Operations, bytes, memory and roofline time of one run of a model, by node; nothing is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fxlens.answers import EstimateResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Estimating"


def work(job: Job) -> None:
    from fxlens.worker import one_model

    one_model.answer(job, lambda: _estimate(job, job.message["options"]))


def _estimate(job: Job, options: Mapping[str, Any]) -> EstimateResult:
    from fxlens.worker import one_model
    from fxlib.passes.cost import estimate
    from fxlib.passes.devices import DEVICES, calibrated_cpu
    from fxlib.shapes.kernel import ShapeError

    model = one_model.make(job, real=False)
    traced = model.traced()
    name = options.get("device")
    if name is not None:
        name = next((known for known in DEVICES if known.lower() == name.lower()), name.lower())
    if name is not None and name != "cpu" and name not in DEVICES:
        raise one_model.Refused(
            f"There is no device {name!r} in the table; choose from {', '.join(DEVICES)} or cpu (measured here)"
        )
    try:
        cost = estimate(traced, *model.in_order, device=calibrated_cpu() if name == "cpu" else name)
    except ShapeError as error:
        raise one_model.Refused(f"The cost of {model.name} cannot be computed without running it: {error}") from error
    nodes = {node.name: node for node in traced.graph.nodes}
    rows = [
        {
            "name": n.name, "op": n.op, "target": n.target, "flops": n.flops, "read": n.read, "written": n.written,
            "parameters": n.parameters, "seconds": n.seconds, "span": nodes[n.name].span,
            "line": nodes[n.name].span.line if nodes[n.name].span else None,
            "call_path": list(nodes[n.name].call_path or ()),
        }
        for n in cost.nodes
    ]  # fmt: skip
    totals = {
        "flops": cost.flops, "bytes": cost.bytes, "parameters": cost.parameters, "peak_bytes": cost.peak_bytes,
        "peak_node": cost.peak_node, "seconds": cost.seconds, "launch_seconds": cost.launch_seconds,
    }  # fmt: skip
    return {
        "target": model.name, "device": name, "totals": totals, "nodes": rows, "text": str(cost),
        "located": [one_model.located(row["name"], row["span"], row["call_path"]) for row in rows],
    }  # fmt: skip
