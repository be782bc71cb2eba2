"""Cutting a graph into consecutive stages of about equal cost, each a GraphModule of its own.

A stage takes all values that cross the cut before it, in a fixed order, and returns those that cross the cut after
it, so stages chain: ``stage[i + 1](*stage[i](*values))``. This is the form that pipeline schedules run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.passes.cost import NodeCost, estimate
from fxlib.passes.devices import Device
from fxlib.passes.utils.extraction import ExtractionWithAttributes
from fxlib.shapes.inference import infer
from fxlib.shapes.kernel import map_values
from fxlib.shapes.propagation import _describe, _load, _placeholder
from fxlib.shapes.tensor_meta import TensorMeta

__all__ = ["run_stages", "split_into_stages"]

Weigh = Callable[[NodeCost], float]


def split_into_stages(
    graph_module: GraphModule,
    count: int,
    *inputs: Any,
    weigh: str | Weigh = "flops",
    device: Device | str | None = None,
) -> list[GraphModule]:
    """Cut ``graph_module`` into ``count`` stages so that the costliest is as cheap as possible.

    Args:
        inputs: one per placeholder; only metadata is used.
        weigh: ``"flops"``, ``"parameters"``, ``"bytes"``, ``"seconds"`` (on ``device``), or a function of a
            `fxlib.passes.cost.NodeCost`.

    Raises:
        ValueError: no stages, or fewer places to cut than asked for. A cut needs that only tensors cross it.
        KeyError: unknown ``weigh`` or device.
    """
    if count < 1:
        raise ValueError(f"split_into_stages() makes one stage or more, not {count}")
    if isinstance(weigh, str) and weigh not in _WEIGHTS:
        raise KeyError(f"split_into_stages(weigh={weigh!r}) is none of {', '.join(map(repr, _WEIGHTS))}")
    if weigh == "seconds" and device is None:
        raise ValueError("split_into_stages(weigh='seconds') needs a device")
    measure = _WEIGHTS[weigh] if isinstance(weigh, str) else weigh
    costs = {c.name: max(measure(c), 0.0) for c in estimate(graph_module, *inputs, device=device).nodes}
    nodes = [n for n in graph_module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    values = _values(graph_module, inputs)
    crossing = [_crossing(graph_module, nodes, i) for i in range(1, len(nodes))]
    allowed = [i for i, live in enumerate(crossing, 1) if all(isinstance(values[n], TensorMeta) for n in live)]
    if len(allowed) < count - 1:
        raise ValueError(
            f"the graph has {len(allowed)} places where only tensors cross; {count} stages need {count - 1}"
        )
    cuts = balanced_cuts([costs.get(n.name, 0.0) for n in nodes], allowed, count)
    bounds = [0, *cuts, len(nodes)]
    takes: list[list[Node]] = [graph_module.graph.find_nodes(op="placeholder")]
    takes += [crossing[cut - 1] for cut in cuts]
    stages = []
    for i in range(count):
        gives = takes[i + 1] if i + 1 < count else None
        stages.append(_stage(graph_module, nodes[bounds[i] : bounds[i + 1]], takes[i], gives, i))
    return stages


def run_stages(stages: list[GraphModule], *inputs: Any) -> Any:
    """The result of running the stages one after another in this process."""
    values: Any = inputs
    for stage in stages:
        values = stage(*values)
        if stage is not stages[-1] and not isinstance(values, tuple):
            values = (values,)
    return values


_WEIGHTS: dict[str, Weigh] = {
    "flops": lambda c: c.flops + 1e-3 * (c.read + c.written),
    "parameters": lambda c: c.parameters,
    "bytes": lambda c: c.read + c.written,
    "seconds": lambda c: c.seconds or 0.0,
}


def balanced_cuts(costs: list[float], allowed: list[int], count: int) -> list[int]:
    """``count - 1`` of the allowed cut positions that minimise the largest sum between cuts (dynamic programming)."""
    prefix = [0.0]
    for cost in costs:
        prefix.append(prefix[-1] + cost)
    best_cuts: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for _ in range(count - 1):
        following: dict[int, tuple[float, tuple[int, ...]]] = {}
        for cut in allowed:
            options = [
                (max(worst, prefix[cut] - prefix[start]), (*cuts, cut))
                for start, (worst, cuts) in best_cuts.items()
                if start < cut
            ]
            if options:
                following[cut] = min(options)
        best_cuts = following
    last = [(max(worst, prefix[-1] - prefix[start]), cuts) for start, (worst, cuts) in best_cuts.items()]
    return list(min(last)[1])


def _values(graph_module: GraphModule, inputs: tuple[Any, ...]) -> dict[Node, Any]:
    env: dict[Node, Any] = {}
    given = iter(map_values(list(inputs), _describe))
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            env[node] = _placeholder(node, given)
        elif node.op != "output":
            env[node] = infer(node.op, node.target, _load(node.args, env), _load(node.kwargs, env), graph_module)
    return env


def _crossing(graph_module: GraphModule, nodes: list[Node], cut: int) -> list[Node]:
    """Values made before position ``cut`` (of ``nodes``) and used after it; parameters are fetched where they are
    used.
    """
    before = set(nodes[:cut]) | set(graph_module.graph.find_nodes(op="placeholder"))
    return [
        n
        for n in graph_module.graph.nodes
        if n in before and any(u not in before and u.op != "get_attr" for u in n.users)
    ]


def _stage(
    root: GraphModule, nodes: list[Node], takes: list[Node], gives: list[Node] | None, index: int
) -> GraphModule:
    part = ExtractionWithAttributes(set(nodes))
    for node in takes:
        if index == 0:
            part.copies[node] = part.graph.node_copy(node)
        else:
            part.take(node)
    for node in nodes:
        part.add(node)
    if gives is None:
        part.graph.node_copy(root.graph.output_node(), part.stand_in)
    else:
        part.give(gives, always_tuple=False)
    part.graph.lint()
    stage = GraphModule(root, part.graph, f"Stage{index}")
    stage.train(root.training)
    return stage
