"""A preview of lowering a model, without an engine: parts, layers, and which nodes stay in PyTorch and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.inputs import Dynamic
from fxlib.lowering.prepare import precision_of_graph, prepare
from fxlib.lowering.report import LoweringReport
from fxlib.lowering.split import MIN_NODES


def preview(
    model: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    engine: str = DEFAULT,
    precision: str = "fp32",
    dynamic: Dynamic = None,
    capture: str | None = None,
    concrete_args: Mapping[str, Any] | None = None,
    min_nodes: int = MIN_NODES,
    progress: Callable[[str, float], None] | None = None,
) -> LoweringReport:
    """The report of `lower`, without the entries that need a build or a run: build times, kernels, the difference from
    eager.

    The engine need not be installed. Parameters and inputs may be on the meta device: only shapes and dtypes are used,
    except where a shape depends on values; on the meta device, such a shape counts as unknown.

    Args: as those of `lower`.
        progress: called with the stage's name and the fraction done.

    Raises:
        EngineError: there is no such engine.
        ValueError: the model is in training mode, or an option is unknown.
        TypeError: an argument is of the wrong type, or the inputs do not fit.
        CaptureError: neither torch.fx nor torch.export captures the model.

    Example::

        print(fxlib.lowering.preview(model.eval(), (torch.randn(1, 3, 224, 224),)))
    """
    chosen = get(engine)
    half = precision_of_graph(model, chosen, precision, capture, min_nodes, "preview()")
    prepared = prepare(
        model, example_inputs, dynamic=dynamic, concrete_args=concrete_args, wanted=capture, dtype=half,
        min_nodes=min_nodes, shapes_only=True, caller="preview()",
        say=lambda stage, done: None if progress is None else progress(stage, 3 * done),  # a third of a whole build
    )  # fmt: skip
    report = prepared.report(type(model).__name__, engine, chosen.label, precision)
    report.built = False
    return report
