"""One large matrix multiplication in place of several with the same right-hand side."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph
from ..tracer import symbolic_trace

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The rows of ``result`` that belong to each of ``inputs``, which were put under each other."""
    return torch.split(result, [value.shape[0] for value in inputs])


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether ``a`` is ``b`` or uses it, directly or not; true as well where the way back from ``a`` is longer than
    ``search_depth`` steps.
    """
    level = {a}
    for _ in range(search_depth + 1):
        if b in level:
            return True
        level = {used for node in level for used in node.all_input_nodes}
        if not level:
            return False
    return True


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether none of the nodes may depend on another."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: torch.nn.Module) -> GraphModule:
    """Traces a module and merges its calls ``torch.matmul(x, w)``, ``torch.matmul(y, w)``, … into one.

    The left-hand sides are matrices with as many columns as ``w`` has rows; their numbers of rows may differ. Calls
    that depend on each other stay as they are.

    Example::

        class Heads(torch.nn.Module):
            def forward(self, query, key):
                return torch.matmul(query, self.weight), torch.matmul(key, self.weight)

        merged = merge_matmul(Heads())  # one matmul of the two inputs, put under each other
    """
    gm = symbolic_trace(in_mod)
    graph = gm.graph
    groups: dict[Any, list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=torch.matmul):
        if len(node.args) == 2 and not node.kwargs and all(isinstance(arg, Node) for arg in node.args):
            right: Any = node.args[1]
            # An attribute is read anew for each use: what is read says whether two are the same.
            groups.setdefault(right.target if right.op == "get_attr" else right, []).append(node)
    output = next(iter(graph.find_nodes(op="output")))
    for calls in groups.values():
        if len(calls) < 2 or not are_nodes_independent(calls):
            continue
        left = [call.args[0] for call in calls]
        with graph.inserting_before(output):
            rows = graph.call_function(torch.cat, (left,))
            product = graph.call_function(torch.matmul, (rows, calls[0].args[1]))
            parts = graph.call_function(split_result_tensors, (product, left))
            for index, call in enumerate(calls):
                call.replace_all_uses_with(graph.call_function(operator.getitem, (parts, index)))
        for call in calls:
            graph.erase_node(call)
    legalize_graph(gm)  # what uses a product may come before another one's operands
    gm.recompile()
    gm.graph.lint()
    return gm
