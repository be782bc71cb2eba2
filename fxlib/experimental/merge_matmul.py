"""One large matrix multiplication in place of several with the same right-hand side."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable
from itertools import permutations

import torch

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..passes.aliases import Aliases
from ..passes.calls import argument
from ..passes.tools_common import stable_topological_sort
from ..tracer import symbolic_trace

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def merge_matmul(in_mod: torch.nn.Module) -> GraphModule:
    """Traces a module and merges its calls ``torch.matmul(x, w)``, ``torch.matmul(y, w)``, … into one.

    The left-hand sides are matrices with as many columns as ``w`` has rows; their numbers of rows may differ. Calls
    that depend on each other stay as they are, and so do those whose operands or results are changed in place.

    Example::

        class Heads(torch.nn.Module):
            def forward(self, query, key):
                return torch.matmul(query, self.weight), torch.matmul(key, self.weight)

        merged = merge_matmul(Heads())  # one matmul of the two inputs, put under each other
    """
    gm = symbolic_trace(in_mod)
    # A merged product takes part in what the next ones depend on, so each family is judged after the one before it.
    for products in _families(gm):
        if not _one_needs_another(products):
            _fuse(gm.graph, products)
    stable_topological_sort(gm)
    gm.recompile()
    return gm


def split_result_tensors(result: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The rows of ``result`` that belong to each of ``inputs``, which were put under each other."""
    return result.split([rows.shape[0] for rows in inputs])


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether ``a`` is ``b`` or uses it, directly or not; true as well where the way back from ``a`` is longer than
    ``search_depth`` steps.
    """
    level = {a}
    for _ in range(search_depth):
        if b in level:
            return True
        level = {source for node in level for source in node.all_input_nodes}
    # Nothing is known of what is further back.
    return b in level or any(node.all_input_nodes for node in level)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether none of the nodes may depend on another."""
    return not any(may_depend_on(*pair) for pair in permutations(nodes, 2))


def _families(gm: GraphModule) -> list[list[Node]]:
    """The calls that could be one, by their right-hand side; each family has two or more."""
    changed = Aliases(gm).changed()
    families: dict[Hashable, list[Node]] = defaultdict(list)
    for call in gm.graph.find_nodes(op="call_function", target=torch.matmul):
        left, right = _operands(call)
        if not isinstance(left, Node) or not isinstance(right, Node) or call.kwargs.get("out") is not None:
            continue
        if changed.isdisjoint((call, left, right)):
            # Every reading of an attribute is a node of its own.
            families[right.target if right.op == "get_attr" else right].append(call)
    return [calls for calls in families.values() if len(calls) > 1]


def _operands(call: Node) -> tuple[object, object]:
    return argument(call, 0, "input"), argument(call, 1, "other")


def _one_needs_another(calls: list[Node]) -> bool:
    """Whether any of the calls is used on the way to another, however long."""
    return not _behind(calls).isdisjoint(calls)


def _behind(nodes: Iterable[Node]) -> set[Node]:
    """Everything that the nodes need, directly or not."""
    found: set[Node] = set()
    waiting = list(nodes)
    while waiting:
        new = set(waiting.pop().all_input_nodes) - found
        found |= new
        waiting.extend(new)
    return found


def _fuse(graph: Graph, calls: list[Node]) -> None:
    """One product for all calls. What its left-hand sides need may stand below it: the graph is sorted later."""
    lefts = [_operands(call)[0] for call in calls]
    rights = [_operands(call)[1] for call in calls]
    with graph.inserting_before(calls[0]):
        stacked = graph.call_function(torch.cat, (lefts,))
        product = graph.call_function(torch.matmul, (stacked, rights[0]))
        parts = graph.call_function(split_result_tensors, (product, lefts))
        for index, call in enumerate(calls):
            call.replace_all_uses_with(graph.call_function(operator.getitem, (parts, index)), propagate_meta=True)
    for call in calls:
        graph.erase_node(call)
    for right in rights[1:]:
        if isinstance(right, Node) and right.op == "get_attr" and not right.users:
            graph.erase_node(right)
