"""A subgraph as a module of its own, with the parameters and submodules that it uses."""

from __future__ import annotations

from typing import Any

from torch.nn import Module

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.graph import Graph

__all__ = ["HolderModule", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that only holds other modules, by name."""

    def __init__(self, d: dict[str, Module | None]) -> None:
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
        comp_name: the name that the new module is going to have inside ``gm``.
        class_name: the name of the new module's class.

    Returns:
        the module, and for each name used in it the name under ``comp_name``.
    """
    root = HolderModule({})
    lifted: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        *owners, name = target.split(".")
        source: Any = gm
        holder: Any = root
        for owner in owners:
            source = getattr(source, owner)
            if not hasattr(holder, owner):
                holder.add_module(owner, HolderModule({}))
            holder = getattr(holder, owner)
        value = getattr(source, name)
        if not hasattr(holder, name):
            setattr(holder, name, value)
        lifted[target] = f"{comp_name}.{target}"
    return GraphModule(root, subgraph, class_name), lifted
