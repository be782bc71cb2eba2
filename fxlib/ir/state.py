"""A graph as plain data, for pickling: a flat list in which nodes refer to each other by number, since pickling the
links would recurse once per node."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fxlib.ir.arguments import Target, map_aggregate
from fxlib.ir.collections import immutable_dict
from fxlib.ir.node import Node, _map_nodes, _new_node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

# Attributes of a graph that are not pickled, since each process creates them anew.
_MADE_ANEW = ("_root", "_append", "_insert", "_find_nodes_lookup_table", "_len", "_naming")


class _NodeNumber(int):
    """Stands for the node of that number."""


# Attributes of a node that are pickled unchanged.
_PLAIN = attrgetter("_name", "_op", "_target", "type", "meta", "__dict__")


def flattened(graph: "Graph") -> dict[str, Any]:
    """The attributes of a graph, and under ``nodes`` the attributes of each node."""
    numbers = {node: _NodeNumber(i) for i, node in enumerate(graph.nodes)}
    number = numbers.__getitem__
    kept = {name: value for name, value in vars(graph).items() if name not in _MADE_ANEW}
    nodes = [(_PLAIN(node), _map_nodes(node._args, number), _map_nodes(node._kwargs, number)) for node in numbers]
    return {**kept, "nodes": nodes}


def restore(graph: "Graph", state: dict[str, Any]) -> None:
    """Fill an empty graph from the result of ``flattened``."""
    written = state.pop("nodes")
    # Hooks of the module are not called, since its nodes are not new.
    owner = state.pop("_owning_module", None)
    vars(graph).update(state)
    nodes = [_restored(graph, *plain) for plain, *_ in written]

    def node_of(leaf: Any) -> Any:
        return nodes[leaf] if isinstance(leaf, _NodeNumber) else leaf

    for node, (_, args, kwargs) in zip(nodes, written, strict=True):
        node._update_args_kwargs(map_aggregate(args, node_of), map_aggregate(kwargs, node_of))
    graph._owning_module = owner


def _restored(
    graph: "Graph",
    name: str,
    op: str,
    target: Target,
    type_expr: object,
    meta: dict[str, Any],
    attributes: dict[str, Any],
) -> Node:
    """A node without its arguments, at the end of the graph."""
    node = _new_node(graph, name, op, target, (), immutable_dict(), {}, type_expr)
    node.meta = meta
    node.__dict__.update(attributes)
    return graph._link(node)
