"""The nodes of a model that no engine can run, found without building anything: fast enough for every edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxlib.ir.node import Node
from fxlib.ir.span import Span
from fxlib.ir.spelling import spelling
from fxlib.lowering.capture import capture, check_model
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.onnx.export import Reason
from fxlib.lowering.places import path_of, span_of
from fxlib.lowering.prepare import known_values
from fxlib.lowering.split import MIN_NODES, plan


@dataclass(frozen=True)
class Obstacle:
    """A node that `lower` would leave in PyTorch.

    `code` is a rule (FX401 and up), `span` the expression that made the node, or None, and `call_path` leads to it
    from the root's forward.
    """

    code: str
    node: str
    target: str
    reason: str
    span: Span | None
    call_path: tuple[Span, ...]
    cause: str | None = None
    """The earlier node because of which this one stays in PyTorch, if any."""


def check(
    model: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    concrete_args: Mapping[str, Any] | None = None,
    min_nodes: int = MIN_NODES,
) -> list[Obstacle]:
    """The nodes that `lower(model, example_inputs)` would leave in PyTorch, in the order of the graph.

    The model is checked in evaluation mode and left in the mode it was in. Parameters and inputs may be on the meta
    device: only shapes and dtypes are used.

    Args:
        model: a module, or a GraphModule.
        example_inputs: one value per argument of `forward`, or a mapping of their names to values.
        concrete_args: as in `fxlib.symbolic_trace`.
        min_nodes: as in `lower`.

    Raises:
        TraceError: the model cannot be traced.

    Example::

        for obstacle in fxlib.lowering.check(model, (torch.randn(1, 3, 224, 224),)):
            print(obstacle.span, obstacle.code, obstacle.reason)
    """
    check_model(model, "check()")
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        inputs = Inputs(model.forward, example_inputs, concrete_args=concrete_args, caller="check()")
        captured = capture(model, inputs, "fx")
        reasons, _ = plan(captured.gm, known_values(captured, inputs), min_nodes)
        return [_obstacle(node, reason) for node, reason in reasons.items()]
    finally:
        for module, training in modes.items():
            module.training = training


def _obstacle(node: Node, reason: Reason) -> Obstacle:
    return Obstacle(reason.code, node.name, spelling(node), reason.text, span_of(node), path_of(node), reason.cause)
