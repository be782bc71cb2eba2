"""Partitions by origin: the nodes that one call of a module or function became in graphs of torch.export."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
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
    # The source, and a name that distinguishes its calls.
    calls: dict[tuple[Source, str], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name, source in _origins(node, types):
            if source in wanted_sources:
                calls[source, name].append(node)
    found: dict[Source, list[SourcePartition]] = defaultdict(list)
    for (source, _), nodes in calls.items():
        partitions = found[source]
        if filter_fn is None or all(map(filter_fn, nodes)):
            partitions.append(_partition(nodes, source))
    return dict(found)


def _origins(node: Node, types: dict[str, type]) -> Iterator[tuple[str, Source]]:
    """A node's origin: a name that distinguishes calls, and the source. ``types`` are the wanted ones by name."""
    match node.meta:
        case {"source_fn_stack": [*_, innermost]}:
            yield innermost
        case {"torch_fn": (name, spelling)}:
            # Graphs of non-strict export name torch's function, and the enclosing module by its type.
            yield name, spelling.split(".")[1]
            for path, kind in [*node.meta.get("nn_module_stack", {}).values()][-1:]:
                yield path, types.get(kind, kind)


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
