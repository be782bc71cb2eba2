"""Shared by several passes: names of targets, sorting of graphs, groups of nodes that must stay together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import Module

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import to_torch_graph
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.arguments import CALLS
from fxlib.ir.format import _get_qualified_name
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.utils.ordering import as_given, sorted_nodes

__all__ = [
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[torch.Tensor] | list[torch.Tensor]
TensorOrTensors = torch.Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = CALLS


def get_acc_ops_name(k: str | type) -> str:
    """The dotted name of a type, ``acc_ops.<name>`` for one of an ``acc_ops`` module; a string is returned as it is."""
    return k if isinstance(k, str) else _in_tables(k.__module__, k.__name__)


def _in_tables(module: str, name: str) -> str:
    return f"acc_ops.{name}" if "acc_ops" in module else f"{module.replace('torch._ops', 'torch.ops')}.{name}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of a node's callee in support tables.

    The method's name, the qualified name of the function, or that of the submodule's type.

    Args:
        submodules: the modules by path, as ``dict(gm.named_modules())``.
        node: a call.

    Raises:
        AssertionError: ``node`` is not a call.
    """
    target: Any = node.target
    match node.op:
        case "call_module":
            called = submodules[target]
            return get_acc_ops_name(getattr(called, "_base_class_origin", type(called)))
        case "call_function" if "acc_ops" in (target.__module__ or ""):
            return _in_tables(target.__module__, target.__name__)
        case "call_function":
            return _get_qualified_name(target)
        case "call_method":
            return str(target)
    raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node returns a tensor, by ``node.meta["type"]`` as shape propagation writes it."""
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, torch.Tensor)


#: Arithmetic and checks of sizes: sorted right after their inputs, so that sizes are known before they are needed.
_SIZE_OPERATORS = frozenset(
    {
        operator.add,
        operator.mul,
        operator.sub,
        operator.floordiv,
        operator.truediv,
        operator.mod,
        operator.le,
        operator.lt,
        operator.ge,
        operator.gt,
        operator.eq,
        operator.ne,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten.scalar_tensor.default,
        torch.ops.aten._assert_scalar.default,
    }
)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sorts the graph of ``gm`` so that each node follows what it uses, breadth first; for graphs edited out of order.

    Operators on sizes come as early as possible.

    Raises:
        RuntimeError: nodes depend on each other in a cycle.
    """

    def rank(node: Node, arrival: int) -> int:
        return -arrival if node.op == "call_function" and node.target in _SIZE_OPERATORS else arrival

    stuck = _sort(gm, rank)
    if stuck:
        raise RuntimeError(f"Input graph has cycles, unable to add {stuck}")
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """As ``legalize_graph``, but keeping the former order where dependencies allow.

    Raises:
        AssertionError: nodes depend on each other in a cycle.
    """
    stuck = _sort(gm, as_given(gm.graph.nodes))
    if stuck:
        raise AssertionError(f"Input graph has cycles, unable to add {stuck}")
    return gm


def _sort(gm: GraphModule, rank: Callable[[Node, int], int]) -> list[Node]:
    """Sorts by dependencies; among the nodes that may come next, the lowest rank is first.

    Returns:
        the nodes in cycles; ``gm`` is not changed if there are any.
    """
    ordered, stuck = sorted_nodes(gm.graph.nodes, rank)
    if stuck:
        return stuck
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in ordered:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    result: Any = to_torch_graph(graph) if isinstance(gm.graph, foreign_graph) else graph
    result._codegen = gm.graph._codegen
    gm.graph = result
    return []
