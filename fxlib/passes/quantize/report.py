"""What quantization does to each layer: its error alone, fed with the float model's values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.passes.quantize.functions import dequantize, quantize
from fxlib.passes.quantize.layers import QuantizedConv2d, QuantizedLinear
from fxlib.passes.quantize.observers import QParams
from fxlib.passes.quantize.plan import Layer, Plan
from fxlib.transform.interpreter import Interpreter

__all__ = ["LayerError", "QuantizationReport", "layer_errors", "relative_error"]


@dataclass(frozen=True)
class LayerError:
    """One layer: its node, its module's path, the relative error of its result, and whether it was quantized."""

    node: str
    path: str
    error: float
    quantized: bool = True


@dataclass
class QuantizationReport:
    """All layers, and the relative error of the whole model's first tensor on the example."""

    layers: list[LayerError] = field(default_factory=list)
    total_error: float | None = None

    def __str__(self) -> str:
        lines = [f"{'layer':<48}{'relative error':>16}"]
        lines += [f"{e.path:<48}{e.error:>16.5f}{'' if e.quantized else '  left in float'}" for e in self.layers]
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
    runner = _Comparing(graph_module, plan, ranges, per_channel)
    with torch.no_grad():
        runner.run(*inputs)
    return runner.found


class _Comparing(Interpreter):
    def __init__(self, module: GraphModule, plan: Plan, ranges: dict[Node, QParams], per_channel: bool) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.ranges, self.per_channel = ranges, per_channel
        self.ends: dict[Node, Layer] = {layer.last: layer for layer in plan.layers.values()}
        self.inputs: dict[Node, torch.Tensor] = {}
        self.starts = plan.layers
        self.found: list[LayerError] = []

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
            self.found.append(LayerError(layer.node.name, str(layer.node.target), relative_error(value, result)))
        return result
