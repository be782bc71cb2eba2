"""Cutting a graph into consecutive stages of about equal cost, each a GraphModule of its own.

A stage takes all tensors that cross the cut before it, in a fixed order, and returns those that cross the cut after it,
so stages chain: ``stage[i + 1](*stage[i](*values))``. This is the form that pipeline schedules run. Only tensors cross
a cut: sizes are read again from their tensor, and a non-tensor input such as ``mask=None``, or such a part of one as in
``past=(x, None)``, is a constant of the later stages and checked by the first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator
from inspect import signature
from itertools import accumulate
from numbers import Real
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxlib.capture.root_arguments import _assert_is_none
from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.cost import NodeCost, estimate
from fxlib.passes.devices import Device
from fxlib.passes.utils.extraction import ExtractionWithAttributes
from fxlib.shapes.inference import infer
from fxlib.shapes.kernel import map_values
from fxlib.shapes.propagation import _describe, _load, _placeholder, check_count
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
    """Cut ``graph_module`` into ``count`` stages so that the most expensive one is as cheap as possible.

    Args:
        inputs: one per placeholder; only metadata is used.
        weigh: ``"flops"``, ``"parameters"``, ``"bytes"``, ``"seconds"`` (on ``device``), or a function of a
            `fxlib.passes.cost.NodeCost`.

    Raises:
        ValueError: ``count`` is less than 1, or there are too few places where only tensors cross a cut.
        KeyError: unknown ``weigh`` or device.
    """
    check_traced(graph_module, "split_into_stages()")
    if type(count) is not int:
        raise TypeError(f"split_into_stages(): count must be an integer, not {type(count).__name__}")
    if count < 1:
        raise ValueError(f"split_into_stages(): count must be 1 or more, not {count}")
    if isinstance(weigh, str) and weigh not in _WEIGHTS:
        raise KeyError(f"split_into_stages(): weigh={weigh!r} must be one of {', '.join(map(repr, _WEIGHTS))}")
    if not isinstance(weigh, str) and not callable(weigh):
        raise TypeError(f"split_into_stages(): weigh must be a name or a function, not {type(weigh).__name__}")
    if weigh == "seconds" and device is None:
        raise ValueError("split_into_stages(weigh='seconds') needs a device")
    check_count(graph_module, inputs, "split_into_stages()")
    measure = _WEIGHTS[weigh] if isinstance(weigh, str) else weigh
    costs = {c.name: _weight(measure, c) for c in estimate(graph_module, *inputs, device=device).nodes}
    flow = _Flow(graph_module, inputs)
    allowed = flow.allowed()
    if len(allowed) < count - 1:
        raise ValueError(
            f"the graph has {len(allowed)} places where only tensors cross; {count} stages need {count - 1}"
        )
    cuts = balanced_cuts([costs.get(n.name, 0.0) for n in flow.calls], allowed, count)
    bounds = [0, *cuts, len(flow.calls)]
    stages = []
    for i in range(count):
        gives = flow.crossing(cuts[i]) if i < len(cuts) else None
        takes = flow.crossing(cuts[i - 1]) if i else None
        stages.append(_stage(graph_module, flow, flow.calls[bounds[i] : bounds[i + 1]], takes, gives, i))
    return stages


def _weight(measure: Weigh, cost: NodeCost) -> float:
    """The weight of a node, at least 0.

    Raises:
        TypeError: the function did not return a number.
    """
    weight: Any = measure(cost)
    if isinstance(weight, bool) or not isinstance(weight, Real) or weight != weight:
        raise TypeError(
            f"split_into_stages(): weigh must be a function that gives a number, and this one gave {weight!r} for "
            f"{cost.name}"
        )
    return max(float(weight), 0.0)


def run_stages(stages: list[GraphModule], *inputs: Any) -> Any:
    """The result of running the stages one after another in this process.

    Raises:
        TypeError: ``stages`` is not a list of stages, or the number of inputs does not fit the first one.
        ValueError: there are no stages.
    """
    if not isinstance(stages, (list, tuple)):
        raise TypeError(f"run_stages() needs the list that split_into_stages() returned, not {type(stages).__name__}")
    if not stages:
        raise ValueError("run_stages() got no stages; pass the list that split_into_stages() returned")
    for stage in stages:
        check_traced(stage, "run_stages()")
    takes = signature(stages[0].forward)
    try:
        takes.bind(*inputs)
    except TypeError:
        names = ", ".join(takes.parameters)
        raise TypeError(
            f"run_stages() got {len(inputs)} inputs, but the first stage takes {len(takes.parameters)}: {names}"
        ) from None
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


class _Flow:
    """The value of each node, the order of execution, and where values are needed.

    Attributes:
        calls: the nodes that run. The parts of a tuple are extracted directly after it, and those of an input first, so
            that they can cross a cut.
        given: the inputs, and their parts.
        values: metadata of tensors, and plain values.
    """

    def __init__(self, graph_module: GraphModule, inputs: tuple[Any, ...]) -> None:
        self.values: dict[Node, Any] = {}
        self.calls: list[Node] = []
        self.placeholders: list[Node] = []
        given = iter(map_values(list(inputs), _describe))
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = _placeholder(node, given)
                self.placeholders.append(node)
            elif node.op != "output":
                arguments = _load(node.args, self.values), _load(node.kwargs, self.values)
                self.values[node] = infer(node.op, node.target, *arguments, graph_module)
        self.given = dict.fromkeys(each for node in self.placeholders for each in _with_parts(node))
        placed = {each for each in self.given if each.op != "placeholder"}
        self.calls += [each for each in self.given if each in placed]
        for node in graph_module.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output") and node not in placed:
                for each in _with_parts(node):
                    placed.add(each)
                    self.calls.append(each)
        self._position = {node: index for index, node in enumerate(self.calls)} | dict.fromkeys(self.placeholders, -1)
        self._last = dict.fromkeys(self._position, -1)
        for node in [graph_module.graph.output_node(), *reversed(self.calls)]:
            # A value that is recomputed in a later stage needs its inputs there.
            needed_at = self._position.get(node, len(self.calls))
            if node in self._last and node not in self.given and not self.tensors_in(node):
                needed_at = max(needed_at, self._last[node])
            for used in node.all_input_nodes:
                if used in self._last:
                    self._last[used] = max(self._last[used], needed_at)

    def tensors_in(self, node: Node) -> bool:
        """Whether a node's value contains tensors."""
        return any(isinstance(leaf, TensorMeta) for leaf in tree_leaves(self.values[node]))

    def allowed(self) -> list[int]:
        """The positions between calls that only tensors cross."""
        barred = [0] * (len(self.calls) + 2)
        for node, last in self._last.items():
            if not isinstance(self.values[node], TensorMeta) and self.tensors_in(node) and last > self._position[node]:
                barred[self._position[node] + 1] += 1
                barred[last + 1] -= 1
        open_ = list(accumulate(barred))
        return [i for i in range(1, len(self.calls)) if not open_[i]]

    def crossing(self, cut: int) -> list[Node]:
        """The tensors that are made before a position and used after it."""
        return [n for n in self._last if self._position[n] < cut <= self._last[n] and self.tensors_in(n)]

    def fixed(self, cut: int) -> list[Node]:
        """The inputs, and parts of inputs, that are not tensors and that a call after a position needs."""
        return [n for n in self.given if not self.tensors_in(n) and self._last[n] >= cut]


def _with_parts(node: Node) -> Iterator[Node]:
    """A node, and the items extracted from it by index."""
    yield node
    for user in node.users:
        if user.target is operator.getitem and isinstance(user.args[1], (int, str)):
            yield from _with_parts(user)


def _name(node: Node) -> str:
    """An input, or a part of one, as the program writes it."""
    return str(node.target) if node.op == "placeholder" else f"{_name(node.args[0])}[{node.args[1]!r}]"  # type: ignore


class _StageGraph(ExtractionWithAttributes):
    """A stage: non-tensor values are recomputed, or constants if they are inputs."""

    def __init__(self, members: Container[Node], flow: _Flow) -> None:
        super().__init__(members)
        self.flow = flow

    def stand_in(self, used: Node) -> Node:
        known = used in self._members or used in self.copies or used in self.inputs
        if known or used.op == "get_attr" or self.flow.tensors_in(used):
            return super().stand_in(used)
        if used in self.flow.given:
            constant: Any = self.flow.values[used]
            return constant
        self.add(used)
        return self.copies[used]


def _stage(
    root: GraphModule, flow: _Flow, nodes: list[Node], takes: list[Node] | None, gives: list[Node] | None, index: int
) -> GraphModule:
    """
    Args:
        takes: the values that cross the cut before it; None for the first.
        gives: the values that cross the cut after it; None for the last.
    """
    part = _StageGraph(set(nodes), flow)
    for node in flow.placeholders if takes is None else takes:
        if takes is None:
            part.copies[node] = part.graph.node_copy(node)
        else:
            part.take(node)
    for node in nodes:
        part.add(node)
    if takes is None and gives is not None:
        _check_fixed(part, flow, len(nodes))
    if gives is None:
        part.graph.node_copy(root.graph.output_node(), part.stand_in)
    else:
        part.give(gives, always_tuple=False)
    part.graph.lint()
    stage = GraphModule(root, part.graph, f"Stage{index}")
    stage.train(root.training)
    return stage


def _check_fixed(part: _StageGraph, flow: _Flow, cut: int) -> None:
    """Let the first stage reject other values of an input that is a constant of the later ones."""
    for node in flow.fixed(cut):
        if node not in part.copies:
            continue
        value, copied = flow.values[node], part.copies[node]
        text = f"the stages were made for {_name(node)}={value!r}"
        if value is None:
            part.graph.call_function(_assert_is_none, (copied, text))
        elif isinstance(value, (bool, int, float, str)):
            part.graph.call_function(torch._assert, (part.graph.call_function(operator.eq, (copied, value)), text))
