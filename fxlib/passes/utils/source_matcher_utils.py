"""Partitions by origin: the nodes that one call of a module or function became in graphs of torch.export."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]

logger = logging.getLogger(__name__)

#: A type of module, a function, or a name of either.
Source = type | Callable[..., object] | str


@dataclass
class SourcePartition:
    """Nodes that came from one ``source``, a type of module or a function; their inputs, outputs and parameters."""

    nodes: list[Node]
    source: Source
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Source], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Source, list[SourcePartition]]:
    """For each wanted source the partitions of the graph that came from it.

    Args:
        graph: a graph whose nodes carry ``source_fn_stack`` or ``torch_fn`` in their metadata.
        wanted_sources: types of modules (``torch.nn.Linear``), functions or methods' names.
        filter_fn: keep the partitions whose nodes it all accepts.
    """
    classes = [source for source in wanted_sources if isinstance(source, type)]
    types = {f"{source.__module__}.{source.__qualname__}": source for source in classes}
    found: dict[Source, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        for name, source in _origins(node, types):
            if source in wanted_sources:
                found.setdefault(source, {}).setdefault(name, []).append(node)
    partitions = {
        source: [_partition(nodes, source) for nodes in by_name.values()] for source, by_name in found.items()
    }
    if filter_fn is None:
        return partitions
    return {
        source: [entry for entry in entries if all(map(filter_fn, entry.nodes))]
        for source, entries in partitions.items()
    }


def _origins(node: Node, types: dict[str, type]) -> list[tuple[str, Source]]:
    """What a node came from: a name that tells calls apart, and the source. ``types`` are the wanted ones by name."""
    strict = node.meta.get("source_fn_stack")
    if strict:
        return strict[-1:]
    # Graphs of the non-strict export name the function of torch, and the module around it by its type.
    function = node.meta.get("torch_fn")
    if function is None:
        return []
    name, spelling = function
    modules = list(node.meta.get("nn_module_stack", {}).values())[-1:]
    around = [(path, types.get(kind, kind)) for path, kind in modules]
    return [(name, spelling.split(".")[1]), *around]


def _partition(nodes: list[Node], source: Source) -> SourcePartition:
    members = set(nodes)
    used = dict.fromkeys(value for node in nodes for value in node.args if isinstance(value, Node))
    return SourcePartition(
        nodes,
        source,
        input_nodes=[value for value in used if value not in members and value.op != "get_attr"],
        output_nodes=[node for node in nodes if not members.issuperset(node.users)],
        params=[node for node in nodes if node.op == "get_attr"],
    )


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second subgraph uses a node of the first."""
    produced = set(subgraph1.nodes)
    return any(used in produced for node in subgraph2.nodes for used in node.all_input_nodes)
