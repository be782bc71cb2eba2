"""A graph as plain data, for pickling: flat, with nodes standing for each other by number, since following the links
would recurse once per node."""

from typing import TYPE_CHECKING, Any

from fxlib.ir.arguments import map_aggregate
from fxlib.ir.collections import immutable_dict
from fxlib.ir.node import Node, _map_nodes, _new_node

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

# What a graph has anew in each process; the rest of its attributes is kept as it is.
_MADE_ANEW = ("_root", "_append", "_insert", "_find_nodes_lookup_table", "_len", "_naming")


class _NodeNumber(int):
    """Stands for the node of that number."""


def flattened(graph: "Graph") -> dict[str, Any]:
    """The attributes of a graph, and under ``nodes`` what each node is made of."""
    state = {name: value for name, value in graph.__dict__.items() if name not in _MADE_ANEW}
    nodes = list(graph.nodes)
    number = {node: _NodeNumber(i) for i, node in enumerate(nodes)}.__getitem__
    state["nodes"] = [
        (
            node._name,
            node._op,
            node._target,
            _map_nodes(node._args, number),
            _map_nodes(node._kwargs, number),
            node.type,
            node.meta,
            node.__dict__,
        )
        for node in nodes
    ]
    return state


def restore(graph: "Graph", state: dict[str, Any]) -> None:
    """Make an empty graph what ``flattened`` has written."""
    written = state.pop("nodes")
    graph.__dict__.update(state)
    owner, graph._owning_module = graph._owning_module, None
    nodes: list[Node] = []
    for name, op, target, _, _, type_expr, meta, extra in written:
        node = graph._link(_new_node(graph, name, op, target, (), immutable_dict(), {}, type_expr))
        node.meta = meta
        node.__dict__.update(extra)
        nodes.append(node)

    def node_of(leaf: Any) -> Any:
        return nodes[leaf] if isinstance(leaf, _NodeNumber) else leaf

    for node, (_, _, _, args, kwargs, _, _, _) in zip(nodes, written, strict=True):
        node._update_args_kwargs(map_aggregate(args, node_of), map_aggregate(kwargs, node_of))
    graph._owning_module = owner
