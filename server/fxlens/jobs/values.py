"""A run of a model on its example inputs: the range of each node's values, and where they stop being finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fxlens.answers import ValueRange, ValuesResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Running"


def work(job: Job) -> None:
    from fxlens.worker import one_model

    one_model.answer(job, lambda: _values(job))


def _values(job: Job) -> ValuesResult:
    import torch

    from fxlens.worker import one_model
    from fxlens.worker.errors import brief
    from fxlib import Interpreter

    model = one_model.make(job, real=True)
    traced = model.traced()
    job.step("run", model.target)
    found: dict[str, ValueRange] = {}

    class Watched(Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if isinstance(value, torch.Tensor) and n.op != "output":
                found[n.name] = _range(value)
            return value

    try:
        with torch.no_grad():
            Watched(traced).run(*model.inputs)
    except Exception as error:
        raise one_model.Refused(f"{model.name} does not run on its example inputs: {brief(error)}") from error
    nodes = [node for node in traced.graph.nodes if node.name in found]
    first = next((name for name, each in found.items() if each["nans"] or each["infinities"]), None)
    said = f"from {first} on not all are finite" if first else "all are finite"
    return {
        "target": model.name, "ranges": found, "first": first, "text": f"{model.name}: {len(found)} values, {said}",
        "located": [one_model.located(node.name, node.span, node.call_path or ()) for node in nodes],
    }  # fmt: skip


def _range(value: Any) -> ValueRange:
    """The smallest, largest and mean finite value, None where there is none; complex ones count by their magnitude."""
    import torch

    number = value.abs() if value.is_complex() else value.dequantize() if value.is_quantized else value
    number = number.detach().double()
    finite = number[torch.isfinite(number)]
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.numel() else (None, None, None)
    return {
        "low": low if low is None else float(low),
        "high": high if high is None else float(high),
        "mean": mean if mean is None else float(mean),
        "count": number.numel(),
        "nans": int(number.isnan().sum()),
        "infinities": int(number.isinf().sum()),
    }
