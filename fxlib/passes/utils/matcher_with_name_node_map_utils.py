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
    """Removes the dict, the last value that the pattern returns, from its output.

    Raises:
        AssertionError: the pattern does not return several values, the last of them a dict.
    """
    output = gm.graph.output_node()
    spec: Any = gm._out_spec
    _expect(spec is not None, "gm._out_spec is None, but expected to be a PyTree spec")
    returned = spec.unflatten(output.args[0])
    _expect(isinstance(returned, tuple), "Expecting the pattern graph to return a tuple")
    _expect(len(returned) > 1, "Expecting the pattern graph to have at least two outputs")
    names = returned[-1]
    _expect(isinstance(names, dict), "Expecting the input graph to have a dict output as the last element")
    leaves, spec = tree_flatten(list(returned[:-1]))
    output.args = (leaves,)
    gm._out_spec = spec
    codegen: Any = copy.copy(gm.graph._codegen)
    codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
    gm.graph.set_codegen(codegen)
    gm.recompile()
    return gm, names


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A SubgraphMatcher whose pattern names nodes, so that the user need not find them in ``nodes_map``.

    Example::

        def attention(query, key, value):
            scores = (query @ key.mT).softmax(-1)
            return scores @ value, {"scores": scores}

        matcher = SubgraphMatcherWithNameNodeMap(torch.export.export(attention, (q, k, v)).module())
        for match in matcher.match(gm.graph):
            print(match.name_node_map["scores"])
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(
            self.pattern_gm.graph,
            match_output=match_output,
            match_placeholder=match_placeholder,
            remove_overlapping_matches=remove_overlapping_matches,
            ignore_literals=ignore_literals,
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences, each with ``name_node_map`` from the pattern's names to the graph's nodes."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map.update((name, match.nodes_map[node]) for name, node in self.name_node_map.items())
        return matches
