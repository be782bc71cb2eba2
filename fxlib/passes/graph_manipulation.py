"""Sizes of nodes in bytes, and exchanging targets."""

from __future__ import annotations

from collections.abc import Callable
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
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = map_arg(node.args, copies.__getitem__)
            kwargs = map_arg(node.kwargs, copies.__getitem__)
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """Bytes of a node's result, and of that with the node's parameters."""

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: list[torch.Tensor] | None = None) -> None:
    """Sets ``node.size_bytes`` on every node.

    Args:
        fx_module: the module.
        args: example inputs, for shape propagation; not needed where that has been done.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> TensorMetadata:
    """The node's ``tensor_meta``; raises RuntimeError where shape propagation has not been run."""
    tensor_meta = node.meta.get("tensor_meta")
    if not tensor_meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return tensor_meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The sizes of one node, whose shape has been propagated."""
    elements = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        elements = sum(parameter.numel() for _, parameter in module.named_parameters())
    tensor_meta = get_tensor_meta(node)
    result = tensor_meta.shape.numel()
    width = torch.tensor([], dtype=tensor_meta.dtype).element_size()
    return size_bytes(width * result, width * (elements + result))
