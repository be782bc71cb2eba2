"""Splitting a module into submodules by a function that numbers the nodes.

Each partition becomes a GraphModule ``submod_<number>``; the module that is returned calls them in an order that their
dependencies allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg
from fxlib.passes.split_plan import EXIT_AUTOCAST, Partition, Plan
from fxlib.passes.utils.extraction import placeholder_for, results_of

__all__ = ["Partition", "split_module", "split_module_simple"]


def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module of submodules, one for each number that ``split_callback`` gives.

    Args:
        m: the module to split; it is not changed.
        root_m: not used; kept for compatibility.
        split_callback: the number of the partition that a call goes to.
        qualname_map: is filled with, for each target of a submodule, the target in ``m``.
        keep_original_order: call the partitions in the order in which they begin in ``m``; otherwise in topological
            order.
        keep_original_node_name: let nodes keep their names.
        keep_original_input_name: name the submodules' inputs after the nodes; otherwise ``arg_0``, ``arg_1``, ….
        partition_affix: put into the names, ``submod_<affix>_<number>``.
        tuple_return: let submodules return a tuple even for a single value.

    Raises:
        RuntimeError: partitions depend on each other in a circle.

    Example::

        count = itertools.count()
        parts = split_module(gm, gm, lambda node: next(count) // 10)
        parts.submod_0
    """
    names = {} if qualname_map is None else qualname_map
    if not callable(split_callback):
        kind = type(split_callback).__name__
        raise TypeError(f"split_module(): split_callback must be a function of a node, not {kind}")
    splitter = _Splitter(
        m,
        Plan(m, split_callback, partition_affix),
        keep_order=bool(keep_original_order),
        keep_node_names=bool(keep_original_node_name),
        keep_input_names=keep_original_input_name,
        tuple_return=tuple_return,
        qualname_map=names,
    )
    return splitter.split()


@dataclass
class _Splitter:
    """Builds the graphs of a plan: one for each partition, and one that calls them."""

    module: GraphModule
    plan: Plan
    keep_order: bool
    keep_node_names: bool
    keep_input_names: bool
    tuple_return: bool
    qualname_map: dict[str, str]
    #: The graph that calls the partitions, the values of its nodes, and the attributes that it reads.
    base: Graph = field(default_factory=Graph)
    values: dict[str, Node] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)

    def split(self) -> GraphModule:
        plan = self.plan
        ordered = plan.in_order()
        for partition in ordered:
            self._begin(partition)
        for node, partition in plan.home.items():
            self._move(node, partition)
        for partition in ordered:
            self._end(partition)
        lazily = self.keep_order and bool(plan.partitions)
        for node in plan.nodes.values():
            if node.op == "placeholder" or (node.op == "get_attr" and not lazily):
                self._take(node)
        for partition in plan.partitions.values() if self.keep_order else ordered:
            self._call(partition)
        for node in self.module.graph.find_nodes(op="output"):
            output = self.base.output(map_arg(node.args[0], self._value))
            output.meta.update(node.meta)
        return GraphModule(self.attributes, self.base)

    # --- the partitions -----------------------------------------------------------------------------------------------

    def _begin(self, partition: Partition) -> None:
        """Make the inputs, and enter the regions that began in other partitions."""
        graph, inside = partition.graph, partition.environment
        taken, partition.inputs = partition.inputs, {}
        for name in taken:
            node = self.plan.nodes[name]
            value = self._attribute(node) if node.op == "get_attr" else None
            if isinstance(value, torch.nn.Module):
                # A module, unlike a tensor, cannot be an argument, so the partition gets its own attribute.
                inside[node] = graph.get_attr(self._add_target(partition, node, value))
                continue
            wished = name if self.keep_input_names else f"arg_{len(partition.inputs)}"
            inside[node] = placeholder_for(node, graph, wished)
            partition.inputs[name] = None
        for enter in self.plan.regions.entered[partition]:
            inside[enter] = graph.create_node("call_function", enter.target, enter.args, enter.kwargs)
            inside[enter].meta = enter.meta.copy()

    def _move(self, node: Node, partition: Partition) -> None:
        target = node.target
        if node.op == "call_module":
            target = self._add_target(partition, node, self._attribute(node))
        args, kwargs = map_arg((node.args, node.kwargs), partition.environment.__getitem__)
        name = node.name if self.keep_node_names else None
        moved = partition.graph.create_node(node.op, target, args, kwargs, name, node.type)
        moved._copy_origin(node)
        partition.environment[node] = moved

    def _end(self, partition: Partition) -> None:
        """Leave the regions that end in other partitions, and return the values that others use."""
        graph, inside = partition.graph, partition.environment
        for enter in reversed(self.plan.regions.left.get(partition, [])):
            graph.call_function(EXIT_AUTOCAST, (inside[enter],))
        results = tuple(inside[self.plan.nodes[name]] for name in partition.outputs)
        graph.output(results if self._returns_tuple(partition) else results[0])

    def _returns_tuple(self, partition: Partition) -> bool:
        return self.tuple_return or len(partition.outputs) != 1

    def _attribute(self, node: Node) -> Any:
        try:
            return attrgetter(str(node.target))(self.module)
        except AttributeError as error:
            raise AttributeError(f"Node target {node.target} not found!") from error

    def _add_target(self, partition: Partition, node: Node, value: object) -> str:
        target = str(node.target).replace(".", "_")
        partition.targets[target] = value
        self.qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
        return target

    # --- the graph around them ----------------------------------------------------------------------------------------

    def _value(self, node: Node) -> Node:
        """The value of a node of the module, in the graph around the partitions."""
        if node.name not in self.values and node.op == "get_attr":
            self._take(node)
        return self.values[node.name]

    def _take(self, node: Node) -> None:
        """Copy an input or an attribute."""
        target = str(node.target)
        if node.op == "get_attr":
            self.attributes[target] = self._attribute(node)
            taken = self.base.get_attr(target)
        elif self.keep_node_names:
            taken = self.base.create_node("placeholder", node.name, node.args, None, node.name, node.type)
        else:
            taken = self.base.create_node("placeholder", target, node.args, type_expr=node.type)
        taken._copy_origin(node)
        self.values[node.name] = taken

    def _call(self, partition: Partition) -> None:
        given = tuple(self._value(self.plan.nodes[name]) for name in partition.inputs)
        self.attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        called = self.base.call_module(partition.submod_name, given)
        results = results_of(called, len(partition.outputs), self._returns_tuple(partition))
        self.values.update(zip(partition.outputs, results, strict=True))


def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """``split_module`` for graphs whose partitions follow one another and use no attributes.

    Args:
        m: the module to split.
        node_to_partition: the number of each call's partition.
        partition_affix: put into the names, ``submod_<affix>_<number>``.
    """
    return split_module(
        m,
        m,
        node_to_partition.__getitem__,
        keep_original_order=True,
        keep_original_node_name=True,
        partition_affix=partition_affix,
        tuple_return=True,
    )
