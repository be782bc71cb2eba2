"""A subgraph as a module of its own, with the parameters and submodules that it uses."""

from __future__ import annotations

from collections.abc import Mapping

from torch.nn import Module

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph

__all__ = ["HolderModule", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that only holds other modules, by name."""

    def __init__(self, d: Mapping[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A GraphModule for ``subgraph`` that shares the submodules and parameters of ``gm`` that it uses.

    Args:
        gm: the module that the subgraph was taken from.
        subgraph: copies of nodes of ``gm.graph``.
        comp_name: the name that the new module will have inside ``gm``.
        class_name: the name of the new module's class.

    Returns:
        the module, and for each name used in it the name under ``comp_name``.

    Raises:
        AttributeError: ``gm`` lacks something that the subgraph uses.
    """
    lifted = GraphModule(gm, subgraph, class_name)
    # Only the mode of the shared submodules counts; the new module starts in training mode like every other.
    lifted.training = True
    used = [str(node.target) for node in subgraph.nodes if node.op in ("call_module", "get_attr")]
    return lifted, {target: f"{comp_name}.{target}" for target in used}
