"""A run of a model on its example inputs: the range of each node's values, and the first non-finite ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fxlens.answers import ValueRange, ValuesResult

if TYPE_CHECKING:
    from fxlens.worker.job import Job

TITLE = "Running"

_PIECE = 1 << 20
"""Numbers that are converted to doubles at once."""


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
            dense = isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_nested
            if dense and n.op != "output":
                found[n.name] = _range(value)
            return value

    try:
        with torch.no_grad():
            Watched(traced).run(*model.inputs)
    except Exception as error:
        raise one_model.Refused(f"{model.name} does not run on its example inputs: {brief(error)}") from error
    nodes = [node for node in traced.graph.nodes if node.name in found]
    first = next((name for name, each in found.items() if each["nans"] or each["infinities"]), None)
    said = f"{first} is the first with NaN or infinity" if first else "all are finite"
    return {
        "target": model.name, "ranges": found, "first": first, "text": f"{model.name}: {len(found)} values, {said}",
        "located": [one_model.located(node.name, node.span, node.call_path or ()) for node in nodes],
    }  # fmt: skip


def _range(value: Any) -> ValueRange:
    """The smallest, largest and mean finite value, None if there is none; complex ones count by their magnitude."""
    low, high, total, finite, nans = math.inf, -math.inf, 0.0, 0, 0
    for piece in _pieces(value.detach()):
        nans += int(piece.isnan().sum())
        known = piece[piece.isfinite()]
        if known.numel():
            low, high = min(low, float(known.min())), max(high, float(known.max()))
            total, finite = total + float(known.sum()), finite + known.numel()
    mean = total / finite if finite else math.nan
    return {
        "low": low if finite else None,
        "high": high if finite else None,
        "mean": mean if math.isfinite(mean) else None,
        "count": value.numel(),
        "nans": nans,
        "infinities": value.numel() - finite - nans,
    }


def _pieces(value: Any) -> Iterator[Any]:
    """All its numbers as doubles, of at most a million at once."""
    import torch

    if value.is_quantized:
        value = value.dequantize()
    if value.dim() and value.numel() > _PIECE and len(value) > 1:
        step = max(1, _PIECE * len(value) // value.numel())
        for part in value.split(step):
            yield from _pieces(part if step > 1 else part[0])
    elif value.numel():
        yield value.to(torch.complex128).abs() if value.is_complex() else value.double()
