"""The quantization error of each layer by itself, on the float model's values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.passes.quantize.functions import dequantize, quantize
from fxlib.passes.quantize.layers import QuantizedConv2d, QuantizedLinear
from fxlib.passes.quantize.observers import QParams
from fxlib.passes.quantize.plan import Layer, Plan
from fxlib.transform.interpreter import Interpreter

__all__ = ["Comparing", "LayerError", "QuantizationReport", "first_result", "layer_errors", "relative_error"]


@dataclass(frozen=True)
class LayerError:
    """One layer: its node, its module's path, the relative error of its result, and whether it was quantized.

    `harm` is the relative error of the whole model if only this layer is quantized; None if it was not needed because
    the model was within the tolerance.
    """

    node: str
    path: str
    error: float
    quantized: bool = True
    harm: float | None = None


@dataclass
class QuantizationReport:
    """All layers, and the relative error of the whole model's first tensor on the example."""

    layers: list[LayerError] = field(default_factory=list)
    total_error: float | None = None

    def __str__(self) -> str:
        known = any(e.harm is not None for e in self.layers)
        lines = [
            f"{'layer':<48}{'relative error':>16}{'of the whole':>16}"
            if known
            else f"{'layer':<48}{'relative error':>16}"
        ]
        for e in self.layers:
            harm = "" if e.harm is None else f"{e.harm:>16.5f}"
            lines.append(f"{e.path:<48}{e.error:>16.5f}{harm}{'' if e.quantized else '  left in float'}")
        if self.total_error is not None:
            lines.append(f"{'whole model':<48}{self.total_error:>16.5f}")
        return "\n".join(lines)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """``||found - expected|| / ||expected||`` in the Euclidean norm."""
    norm = expected.double().norm().item()
    return (found.double() - expected.double()).norm().item() / max(norm, 1e-30)


def layer_errors(
    graph_module: GraphModule,
    plan: Plan,
    ranges: dict[Node, QParams],
    inputs: tuple[Any, ...],
    per_channel: bool = True,
) -> list[LayerError]:
    """Each planned layer's error when it alone is quantized: input, weight and result."""
    runner = Comparing(graph_module, plan, ranges, per_channel)
    with torch.no_grad():
        runner.run(*inputs)
    return runner.found


def first_result(value: Any) -> torch.Tensor | None:
    """The first tensor of floating-point numbers that a model returns."""
    floats = (t for t in tree_leaves(value) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point)
    return next(floats, None)


class Comparing(Interpreter):
    """Runs the float model, and each layer beside it in 8 bits.

    Attributes:
        found: the errors of the layers.
        kept: with ``keep``, a layer's node -> its result from 8 bits.
    """

    def __init__(
        self, module: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool, keep: bool = False
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.ranges, self.per_channel = ranges, per_channel
        self.ends: dict[Node, Layer] = {layer.last: layer for layer in plan.layers.values()}
        self.inputs: dict[Node, torch.Tensor] = {}
        self.starts = plan.layers
        self.found: list[LayerError] = []
        self.keep, self.kept = keep, dict[Node, torch.Tensor]()

    def run_node(self, n: Node) -> Any:
        if n in self.starts:
            value = self.env[n.args[0]]  # type: ignore[index]
            q = self.ranges[n.args[0]]  # type: ignore[index]
            self.inputs[n] = quantize(value, q.scale, q.zero_point)
        result = super().run_node(n)
        layer = self.ends.get(n)
        if layer is not None:
            module: Any = self.fetch_attr(str(layer.node.target))
            kind = QuantizedConv2d if isinstance(module, nn.Conv2d) else QuantizedLinear
            out = self.ranges[n]
            eight: Any = kind(module, self.ranges[layer.node.args[0]], out, layer.post, self.per_channel)  # type: ignore[index]
            inputs = [self.inputs.pop(layer.node)]
            if layer.other is not None:
                q = eight.other = self.ranges[layer.other]
                inputs.append(quantize(self.env[layer.other], q.scale, q.zero_point))
            value = dequantize(eight(*inputs), out.scale, out.zero_point)
            if self.keep:
                self.kept[layer.node] = value
            self.found.append(LayerError(layer.node.name, str(layer.node.target), relative_error(value, result)))
        return result
