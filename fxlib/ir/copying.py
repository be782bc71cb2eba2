"""Nodes and whole graphs copied into other graphs. The functions are methods of ``Graph``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fxlib.ir.arguments import _ATOMS, Argument
from fxlib.ir.collections import immutable_dict
from fxlib.ir.makers import create_node, link
from fxlib.ir.node import Node, _map_nodes, _new_node, map_arg

if TYPE_CHECKING:
    from fxlib.ir.graph import Graph

__all__: list[str] = []

_NO_KWARGS = immutable_dict()


def node_copy(self: Graph, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
    """Copy a node of any graph into this one.

    Args:
        node: the node to copy; its ``meta`` is copied one level deep.
        arg_transform: maps a node among the arguments to its counterpart in this graph.
    """
    operands = map_arg((node.args, node.kwargs), arg_transform)
    made = self.create_node(node.op, node.target, *_call_arguments(*operands), name=node.name, type_expr=node.type)
    made._copy_origin(node)
    return made


def _call_arguments(args: Argument, kwargs: Argument) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    assert isinstance(args, tuple), f"Expected args to be tuple, got {type(args)}"
    assert isinstance(kwargs, dict), f"Expected kwargs to be dict, got {type(kwargs)}"
    return args, kwargs


def graph_copy(
    self: Graph, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
) -> Argument | tuple[Argument, Node] | None:
    """Append copies of all nodes of ``g`` but its output.

    Args:
        g: the graph to copy from.
        val_map: nodes of ``g`` that already have a counterpart here; filled with the copies.
        return_output_node: also return the output node of ``g``.

    Returns:
        What ``g`` returns, in terms of this graph's nodes; None if it has no output.
    """
    stand_in = val_map.__getitem__
    quick = _can_copy_quickly(self, g)
    for node in g.nodes:
        if node.op == "output":
            if node not in val_map:
                returned = map_arg(node.args[0], stand_in)
                return (returned, node) if return_output_node else returned
        elif node not in val_map:
            val_map[node] = (quick and _copy_quickly(self, node, val_map)) or self.node_copy(node, stand_in)
    return None


def _can_copy_quickly(graph: Graph, source: Graph) -> bool:
    """Whether the fast path is safe: no method is overridden, and the nodes are ours."""
    cls = type(graph)
    return cls.node_copy is node_copy and cls.create_node is create_node and type(source._root) is Node


def _copy_quickly(graph: Graph, node: Node, val_map: dict[Node, Node]) -> Node | None:
    """The result of ``node_copy`` without normalising the arguments again; None if that is needed because the map gives
    something other than a node."""
    if type(node._args) is not tuple:
        return None
    args: list[Any] = []
    inputs: dict[Node, None] = {}
    atoms, nested = _ATOMS, False
    groups: Any = (node._args, node._kwargs.values()) if node._kwargs else (node._args,)
    for group in groups:
        for a in group:
            kind = type(a)
            if kind is Node:
                a = val_map[a]
                if type(a) is not Node:
                    return None
                inputs[a] = None
            elif kind not in atoms:
                a, nested = _map_nodes(a, val_map.__getitem__), True
            args.append(a)
    if nested:
        used = [val_map[one] for one in node._input_nodes]
        for one in used:
            if type(one) is not Node:
                return None
        inputs = dict.fromkeys(used)
    kwargs = _NO_KWARGS
    if node._kwargs:
        count = len(node._args)
        kwargs = immutable_dict(zip(node._kwargs, args[count:], strict=True))
        del args[count:]
    name = graph._graph_namespace.create_name(node._name, None)
    made = link(graph, _new_node(graph, name, node._op, node._target, tuple(args), kwargs, inputs, node.type))
    made._site = node._site
    made._module_stack = node._module_stack
    if node._meta is not None:
        made._meta = copy.copy(node._meta)
    return made


def fill(made: Graph, source: Graph, memo: dict[Any, Any] | None) -> Graph:
    """Fill an empty graph with copies of another's nodes, for ``copy.deepcopy``; the objects that nodes refer to are
    shared."""
    # An enclosing deepcopy finds the copy of each node in the memo.
    found = made.graph_copy(source, {} if memo is None else memo, return_output_node=True)
    made._codegen = copy.deepcopy(source._codegen)
    if isinstance(found, tuple):
        value, former = found
        made.output(value, type_expr=former.type)._copy_origin(former)
    return made
