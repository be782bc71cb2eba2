"""Fusing sets of nodes into submodules.

``passes.infra.partitioner`` decides which nodes go together; here they are checked, moved and called.
"""

from __future__ import annotations

from collections.abc import Container

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node

# Names that programs import from here although other files define them.
from fxlib.passes.tools_common import NodeList, NodeSet, legalize_graph, stable_topological_sort  # noqa: F401
from fxlib.passes.utils.extraction import Extraction, results_of
from fxlib.passes.utils.lifting import lift_subgraph_as_module
from fxlib.passes.utils.ordering import as_given, sorted_nodes

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """``nodes`` with each after those of them that it uses; otherwise in the order of the list.

    Raises:
        AssertionError: they depend on each other in a cycle.
    """
    ordered, stuck = sorted_nodes(nodes, as_given(nodes))
    if stuck:
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return ordered


def validate_partition(partition: list[Node]) -> bool:
    """Whether ``partition`` could become one node: no value leaves it and returns through other nodes."""
    members = set(partition)
    seen: set[Node] = set()
    pending = [node for node in partition if not members.issuperset(node.users)]
    if not pending:
        return True
    # Users come after the nodes they use, so nothing after the last member can lead back.
    last = max(members)
    while pending:
        node = pending.pop()
        for user in node.users:
            if user in members:
                if node not in members:
                    return False
            elif user not in seen and user < last:
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
        partition_lookup_table: a dict whose keys are ``nodes``, if the caller has one.
        always_return_tuple: return a tuple even for a single output.

    Returns:
        the module, the nodes of ``gm`` that it takes as inputs, and those of ``nodes`` that it returns.

    Raises:
        AssertionError: a node is of another graph, or fusing would close a cycle.
    """
    for node in nodes:
        _check_owner(gm, node)
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")

    members: Container[Node] = set(nodes) if partition_lookup_table is None else partition_lookup_table
    part = Extraction(members)
    for node in nodes:
        part.add(node)
    outputs = tuple(node for node in nodes if any(user not in members for user in node.users))
    part.give(outputs, always_return_tuple)
    part.graph.lint()
    fused, _ = lift_subgraph_as_module(gm, part.graph, class_name=module_name)
    return fused, tuple(part.inputs), outputs


def _check_owner(gm: GraphModule, node: Node) -> None:
    place = gm._get_name()
    if node.graph.owning_module is not gm:
        raise AssertionError(f"{node} doesn't belong to passed in graph module {place}")
    if node._erased:
        raise AssertionError(f"{node} has been removed from owning graph")
    if node.graph is not gm.graph:
        raise AssertionError(f"{node} is not found in graph module {place}")


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Adds ``sub_gm`` to ``gm``, inserts a call of it, and replaces ``orig_outputs`` by its results.

    The call is inserted after ``insertion_point``, by default the last of ``orig_outputs``.
    """
    name, graph = type(sub_gm).__name__, gm.graph
    gm.add_submodule(name, sub_gm)
    returned = sub_gm.graph.output_node().args[0]
    with graph.inserting_after(insertion_point or max(orig_outputs)):
        called = graph.call_module(name, orig_inputs)
    with graph.inserting_before(called.next):
        results = results_of(called, len(orig_outputs), isinstance(returned, tuple))
    for old, new in zip(orig_outputs, results, strict=True):
        old.replace_all_uses_with(new, propagate_meta=True)
    if called not in results:
        called.meta["val"] = tuple([old.meta.get("val") for old in orig_outputs])
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
        always_return_tuple: let the submodules return a tuple even for a single output.
    """
    for number, nodes in enumerate(map(topo_sort, map(list, partitions))):
        fused = fuse_as_graphmodule(gm, nodes, f"{prefix}{number}", always_return_tuple=always_return_tuple)
        insert_subgm(gm, *fused, insertion_point=nodes[-1])
        erase_nodes(gm, nodes)
    return stable_topological_sort(gm)
