"""Sizes of nodes in bytes, and exchanging targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


def replace_target_nodes_with(
    fx_module: GraphModule,
    old_op: str,
    old_target: Callable[..., Any] | str,
    new_op: str,
    new_target: Callable[..., Any] | str,
) -> None:
    """Gives all nodes of opcode ``old_op`` and target ``old_target`` a new opcode and target; sets a new graph."""
    changed = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if (node.op, node.target) == (old_op, old_target):
            args, kwargs = map_arg((node.args, node.kwargs), copies.__getitem__)
            copies[node] = changed.create_node(new_op, new_target, args, kwargs, node.name, node.type)
            copies[node].meta = dict(node.meta)
        else:
            copies[node] = changed.node_copy(node, copies.__getitem__)
    fx_module.graph = changed


class size_bytes(NamedTuple):
    """Bytes of a node's result, and of that with the node's parameters."""

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: list[torch.Tensor] | None = None) -> None:
    """Sets ``node.size_bytes`` on every node but the output.

    Results of several tensors count as all of them; numbers take no memory.

    Args:
        fx_module: the module.
        args: example inputs, for shape propagation; not needed where that has been done.
    """
    if args is not None:
        # With the result of every node, its type too.
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> TensorMetadata:
    """The node's ``tensor_meta``; raises RuntimeError where shape propagation has not been run."""
    if "tensor_meta" in node.meta:
        return node.meta["tensor_meta"]
    raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The sizes of one node, whose shape has been propagated."""
    # A number has a type and no metadata; several tensors have a collection of it.
    computed = "type" in node.meta and "tensor_meta" not in node.meta
    result = 0 if computed else _bytes_of(get_tensor_meta(node))
    if node.op != "call_module":
        return size_bytes(result, result)
    parameters = fx_module.get_submodule(str(node.target)).parameters()
    return size_bytes(result, result + sum(each.numel() * each.element_size() for each in parameters))


def _bytes_of(described: Any) -> int:
    if hasattr(described, "dtype"):  # torch.fx's metadata will do
        return described.shape.numel() * described.dtype.itemsize
    if isinstance(described, dict):
        described = described.values()
    return sum(map(_bytes_of, described)) if isinstance(described, Iterable) else 0
