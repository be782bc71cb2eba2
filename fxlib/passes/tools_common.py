"""What several passes need: names of targets, orders of graphs, groups of nodes that must stay together."""

from __future__ import annotations

import collections
import heapq
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import Module

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import to_torch_graph
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.format import _get_qualified_name
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node

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
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: str | type) -> str:
    """The dotted name of a type, ``acc_ops.<name>`` for one of an ``acc_ops`` module; a string is returned as it is."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    module = k.__module__.replace("torch._ops", "torch.ops")
    return f"{module or ''}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name by which support tables know what a node calls.

    The method's name, the qualified name of the function, or that of the submodule's type.

    Args:
        submodules: the modules by path, as ``dict(gm.named_modules())``.
        node: a call.

    Raises:
        AssertionError: ``node`` is no call.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[str(node.target)]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_function":
        target: Any = node.target
        if target.__module__ is not None and "acc_ops" in target.__module__:
            return f"acc_ops.{target.__name__}"
        return _get_qualified_name(target)
    return str(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, by ``node.meta["type"]`` as shape propagation writes it."""
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, torch.Tensor)


#: Arithmetic and checks of sizes: sorted right behind what they use, so that sizes are known before they are needed.
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

    Operators on sizes follow as soon as they can.

    Raises:
        RuntimeError: nodes depend on each other in a circle.
    """
    ready: collections.deque[Node] = collections.deque()

    def put(node: Node) -> None:
        if node.op == "call_function" and node.target in _SIZE_OPERATORS:
            ready.appendleft(node)
        else:
            ready.append(node)

    stuck = _sort(gm, ready, put, ready.popleft)
    if stuck:
        raise RuntimeError(f"Input graph has cycles, unable to add {stuck}")
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """As ``legalize_graph``, but of the nodes that may come next the one that came first before.

    Raises:
        AssertionError: nodes depend on each other in a circle.
    """
    position = {node: index for index, node in enumerate(gm.graph.nodes)}
    ready: list[tuple[int, Node]] = []
    stuck = _sort(
        gm, ready, lambda node: heapq.heappush(ready, (position[node], node)), lambda: heapq.heappop(ready)[1]
    )
    if stuck:
        raise AssertionError(f"Input graph has cycles, unable to add {stuck}")
    return gm


def _sort(gm: GraphModule, ready: Any, put: Callable[[Node], None], take: Callable[[], Node]) -> list[Node]:
    """Sorts by dependencies; ``put`` and ``take`` add to and take from ``ready``.

    Returns:
        the nodes in circles; ``gm`` is not changed where there are any.
    """
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    graph = Graph()
    for node, count in missing.items():
        if count == 0:
            put(node)
    copies: dict[Node, Node] = {}
    while ready:
        node = take()
        copies[node] = graph.node_copy(node, copies.__getitem__)
        for user in node.users:
            missing[user] -= 1
            if missing[user] == 0:
                put(user)
    if len(copies) < len(missing):
        return [node for node, count in missing.items() if count != 0]
    result: Any = to_torch_graph(graph) if isinstance(gm.graph, foreign_graph) else graph
    result._codegen = gm.graph._codegen
    gm.graph = result
    return []
