"""Matching subgraphs and fusing sets of nodes into modules."""

from fxlib.compat.submodules import submodule
from fxlib.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


def __getattr__(name: str) -> object:
    return submodule(__name__, name)
