"""Which layers to leave in float so that the whole model is accurate enough.

A layer's own error says little about its effect on the model. So each layer is quantized alone, and the rest of the
model runs on its result: the model's error is the layer's harm. Harms of different layers are roughly independent, so
their squares add up. The most harmful layers are left in float until the rest is within the tolerance, as measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.passes.quantize.observers import QParams
from fxlib.passes.quantize.plan import Plan
from fxlib.passes.quantize.report import Comparing, first_result, relative_error
from fxlib.transform.interpreter import Interpreter

__all__ = ["harms", "left_in_float"]

_ATTEMPTS = 4


def harms(
    graph_module: GraphModule,
    plan: Plan,
    ranges: dict[Node, QParams],
    inputs: tuple[Any, ...],
    per_channel: bool = True,
) -> dict[str, float]:
    """The relative error of the model's first result if one layer alone is quantized, by the layer's node name."""
    with torch.no_grad():
        runner = Comparing(graph_module, plan, ranges, per_channel, keep=True)
        expected = first_result(runner.run(*inputs))
        if expected is None:
            return {}
        found = {}
        for node, value in runner.kept.items():
            result = first_result(_Rest(graph_module, runner.env, plan.layers[node].last, value).run(*inputs))
            found[node.name] = 0.0 if result is None else relative_error(result, expected)
        return found


class _Rest(Interpreter):
    """Reruns the nodes that depend on one node, with another value for it."""

    def __init__(self, module: GraphModule, known: dict[Node, Any], changed: Node, value: torch.Tensor) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.known, self.touched, self.value = known, {changed}, value

    def run_node(self, n: Node) -> Any:
        if n in self.touched:
            return self.value.clone()  # later nodes may write to it
        if n.op != "output" and self.touched.isdisjoint(n.all_input_nodes):
            return self.known[n]
        result = super().run_node(n)
        self.touched.add(n)
        return result


def left_in_float(
    harm: dict[str, float], tolerance: float, error_without: Callable[[frozenset[str]], float]
) -> frozenset[str]:
    """The layers to leave in float, as few and as harmful as possible.

    Args:
        harm: as `harms` gives it.
        tolerance: the relative error that the whole may have.
        error_without: the error of the whole with these layers in float.
    """
    order = sorted(harm, key=lambda name: -harm[name])
    goal = tolerance
    too_few, enough = 0, len(order)
    for _ in range(_ATTEMPTS):
        if enough - too_few <= 1:
            break
        if enough < len(order):
            count = (too_few + enough) // 2
        else:
            count, rest = 0, sum(each**2 for each in harm.values())
            while count < len(order) and rest > goal**2:
                rest -= harm[order[count]] ** 2
                count += 1
            count = min(max(count, too_few + 1), enough)
        error = error_without(frozenset(order[:count]))
        if error <= tolerance:
            enough = count
        else:
            too_few = count
            goal *= 0.8 * tolerance / error
    return frozenset(order[:enough])
