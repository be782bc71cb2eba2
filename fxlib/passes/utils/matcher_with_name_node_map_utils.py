"""Matching with named nodes: the pattern returns, beside its result, a dict from names to nodes of interest."""

from __future__ import annotations

import copy
from typing import Any

from torch.utils._pytree import tree_flatten

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Takes the dict, the last value that the pattern returns, off its output."""
    names: dict[str, Node] = {}
    for node in gm.graph.nodes:
        if node.op != "output":
            continue
        if gm._out_spec is None:
            raise AssertionError("gm._out_spec is None, but expected to be a PyTree spec")
        returned = gm._out_spec.unflatten(node.args[0])
        if not isinstance(returned, tuple):
            raise AssertionError("Expecting the pattern graph to return a tuple")
        if len(returned) < 2:
            raise AssertionError("Expecting the pattern graph to have at least two outputs")
        *results, names = returned
        if not isinstance(names, dict):
            raise AssertionError("Expecting the input graph to have a dict output as the last element")
        leaves, out_spec = tree_flatten(results)
        node.args = (leaves,)
        gm._out_spec = out_spec
        codegen: Any = copy.copy(gm.graph._codegen)
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        gm.graph._codegen = codegen
    gm.recompile()
    return gm, names


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A SubgraphMatcher whose pattern names nodes, so that the user need not find them in ``nodes_map``.

    Example::

        def pattern(x, weight):
            conv = F.conv2d(x, weight)
            relu = F.relu(conv)
            return relu, {"conv": conv, "relu": relu}

        for match in SubgraphMatcherWithNameNodeMap(pattern_gm).match(target_gm.graph):
            match.name_node_map["conv"]
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences, each with ``name_node_map`` from the pattern's names to the graph's nodes."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return matches
