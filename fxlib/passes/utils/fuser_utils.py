"""Fusing sets of nodes into submodules.

Which nodes go together is ``passes.infra.partitioner``'s question; here they are checked, moved and called.
"""

from __future__ import annotations

import copy
import heapq
import operator
from typing import Any

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

# Names that programs import from here although other files define them.
from fxlib.passes.tools_common import NodeList, NodeSet, legalize_graph, stable_topological_sort  # noqa: F401
from fxlib.passes.utils.lifting import lift_subgraph_as_module

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """``nodes`` with each after those of them that it uses; of those that may come next the first in the list.

    Raises:
        AssertionError: they depend on each other in a circle.
    """
    position = {node: index for index, node in enumerate(nodes)}
    missing = {node: sum(used in position for used in node.all_input_nodes) for node in nodes}
    ready = [position[node] for node in nodes if missing[node] == 0]
    ordered = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for user in node.users:
            if user in position:
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready, position[user])
    if len(ordered) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return ordered


def validate_partition(partition: list[Node]) -> bool:
    """Whether ``partition`` could become one node: no value leaves it and comes back through other nodes."""
    members = set(partition)
    pending = [user for node in members for user in node.users if user not in members]
    if not pending:
        return True
    # Users come after what they use, so nothing that lies behind the last member can lead back.
    last = max(members)
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node in members:
            return False
        for user in node.users:
            if user not in seen and (user in members or user < last):
                seen.add(user)
                pending.append(user)
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A GraphModule of copies of ``nodes``; ``gm`` is not changed.

    Args:
        gm: the module that the nodes belong to.
        nodes: what to fuse, each after those that it uses.
        module_name: the name of the new module's class.
        partition_lookup_table: a dict whose keys are ``nodes``, where the caller has one.
        always_return_tuple: return a tuple also when there is one output.

    Returns:
        the module, the nodes of ``gm`` that it takes as inputs, and those of ``nodes`` that it returns.

    Raises:
        AssertionError: a node is of another graph, or fusing would close a cycle.
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
        if node.graph is not gm.graph:
            raise AssertionError(f"{node} is not found in graph module {gm._get_name()}")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")

    members: Any = set(nodes) if partition_lookup_table is None else partition_lookup_table
    subgraph = Graph()
    inside: dict[Node, Node] = {}
    inputs: dict[Node, Node] = {}

    def copied(node: Node) -> Node:
        if node in members:
            return inside[node]
        if node not in inputs:
            placeholder = subgraph.placeholder(node.name, type_expr=node.type)
            placeholder.meta = copy.copy(node.meta)
            inputs[node] = placeholder
        return inputs[node]

    for node in nodes:
        inside[node] = subgraph.node_copy(node, copied)
    outputs = {node: inside[node] for node in nodes if any(user not in members for user in node.users)}
    returned = tuple(outputs.values())
    subgraph.output(returned if always_return_tuple or len(returned) != 1 else returned[0])
    subgraph.lint()

    fused, _ = lift_subgraph_as_module(gm, subgraph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Adds ``sub_gm`` to ``gm``, calls it, and lets the users of ``orig_outputs`` use its results.

    The call stands after ``insertion_point``, which is the last of ``orig_outputs`` unless one is given.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)

    with gm.graph.inserting_after(max(orig_outputs) if insertion_point is None else insertion_point):
        called = gm.graph.call_module(name, args=orig_inputs, kwargs=None)
    if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
        orig_outputs[0].replace_all_uses_with(called, propagate_meta=True)
        return gm
    with gm.graph.inserting_before(called.next):
        for position, output in enumerate(orig_outputs):
            item = gm.graph.call_function(operator.getitem, (called, position))
            output.replace_all_uses_with(item, propagate_meta=True)
    called.meta["val"] = tuple(output.meta.get("val", None) for output in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Removes ``nodes``, which no other node uses, from the last to the first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Replaces each partition by one call of a submodule ``<prefix><number>``, in place, and sorts the graph.

    Args:
        gm: the module to change.
        partitions: sets of nodes, as dicts whose values do not matter.
        prefix: of the submodules' names.
        always_return_tuple: let the submodules return a tuple also when there is one output.
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    return stable_topological_sort(gm)
