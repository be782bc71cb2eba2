"""Comparing graphs, and the names of ``torch.fx.passes.utils.common``."""

from __future__ import annotations

from fxlib.ir.graph import Graph
from fxlib.passes.utils.lifting import HolderModule, lift_subgraph_as_module
from fxlib.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs have the same inputs, outputs, nodes and connections; names do not count."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
