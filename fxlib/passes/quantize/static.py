"""Post-training quantization of a whole model: static, with calibrated ranges, and dynamic."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import as_sequence
from fxlib.passes.calls import module_of
from fxlib.passes.dropout import remove_dropout
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.layouts import keep_layouts
from fxlib.passes.quantize.calibrate import Progress, calibrate, text_progress
from fxlib.passes.quantize.convert import to_kernels, to_qdq
from fxlib.passes.quantize.layers import DynamicQuantizedLinear
from fxlib.passes.quantize.plan import make_plan
from fxlib.passes.quantize.report import LayerError, QuantizationReport, layer_errors, relative_error
from fxlib.shapes import propagate

__all__ = ["quantize_dynamic", "quantize_static"]


def quantize_static(
    graph_module: GraphModule,
    data: Iterable[Any],
    *,
    observer: str = "minmax",
    per_channel: bool = True,
    tolerance: float | None = None,
    skip: Iterable[str] = (),
    form: str = "kernels",
    progress: bool | Progress = False,
) -> GraphModule:
    """An int8 version of a float32 CPU model in evaluation mode; ``graph_module`` itself is not changed.

    Batch norms are folded and dropout removed first. Convolutions and linear layers take uint8 and int8; pooling,
    reshaping, ReLU and equal-shaped sums between them stay 8-bit.

    Args:
        data: calibration examples; each item is the tuple of inputs or the only input.
        observer: ``minmax``, ``moving-average``, ``histogram`` (least squared error) or ``percentile``.
        per_channel: one weight scale per output channel.
        tolerance: leave layers in float whose own relative error on the first example is above this.
        skip: node names or module paths to leave in float.
        form: ``kernels`` runs here; ``qdq`` is the exchange form with explicit Q and DQ.
        progress: True for a bar on standard error, or a callable ``(done, total)``.

    Returns:
        The new GraphModule, with its `QuantizationReport` in ``meta["quantize"]``.

    Raises:
        ValueError: no data, training mode, or an unknown form.
    """
    if form not in ("kernels", "qdq"):
        raise ValueError(f"quantize_static() form must be 'kernels' or 'qdq', not {form!r}")
    if any(m is not None and m.training for m in (module_of(graph_module, n) for n in graph_module.graph.nodes)):
        raise ValueError("quantize_static() needs a model in evaluation mode; call eval() before")
    items = data if hasattr(data, "__len__") else list(map(as_sequence, data))
    first = next(iter(items), None)
    if first is None:
        raise ValueError("quantize_static() got no calibration data: pass at least one example input")
    example = tuple(as_sequence(first))
    model = copy.deepcopy(graph_module)
    propagate(model, *example)
    remove_dropout(fuse_conv_bn(model))
    if form == "kernels":
        keep_layouts(model)
    bar = text_progress if progress is True else progress or None
    skipped = frozenset(skip)
    plan = make_plan(model, skipped)
    ranges = calibrate(model, plan, items, observer, bar)
    report = QuantizationReport(layer_errors(model, plan, ranges, example, per_channel))
    if tolerance is not None:
        sensitive = frozenset(e.node for e in report.layers if e.error > tolerance)
        if sensitive:
            plan = make_plan(model, skipped | sensitive)
            ranges = calibrate(model, plan, items, observer, bar)
            report.layers = [LayerError(e.node, e.path, e.error, e.node not in sensitive) for e in report.layers]
    result = (to_kernels if form == "kernels" else to_qdq)(model, plan, ranges, per_channel)
    with torch.no_grad():
        found, expected = tree_leaves(result(*example)), tree_leaves(model(*example))
    pairs = [
        (a, b)
        for a, b in zip(found, expected, strict=False)
        if isinstance(b, torch.Tensor) and b.dtype.is_floating_point
    ]
    report.total_error = relative_error(*pairs[0]) if pairs else None
    result.meta["quantize"] = report
    return result


def quantize_dynamic(graph_module: GraphModule, per_channel: bool = True, min_weights: int = 1024) -> GraphModule:
    """Int8 weights for every linear layer, ranges of inputs found at run time; needs no data, changes a copy.

    Args:
        min_weights: layers with fewer weights than this stay in float, where finding the range costs more than it
        saves.
    """
    result = copy.deepcopy(graph_module)
    for node in result.graph.nodes:
        module = module_of(result, node)
        if type(module) is nn.Linear and module.weight.dtype is torch.float32 and module.weight.numel() >= min_weights:
            result.set_submodule(str(node.target), DynamicQuantizedLinear(module, per_channel).eval())
    result.recompile()
    return result
