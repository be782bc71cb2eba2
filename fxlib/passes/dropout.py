"""Removal of layers that pass their input through: dropout in evaluation mode and ``nn.Identity``."""

from __future__ import annotations

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.calls import argument, called, is_dropout_off
from fxlib.passes.edits import in_order, yield_to

__all__ = ["remove_dropout"]


def remove_dropout(graph_module: GraphModule) -> GraphModule:
    """Erase every dropout that is off and every identity; changes and returns ``graph_module``.

    A dropout in training mode stays, since there it changes the result.
    """
    check_traced(graph_module, "remove_dropout()")
    for node in list(graph_module.graph.nodes):
        idle = called(graph_module, node) == "identity" or is_dropout_off(graph_module, node)
        if idle and isinstance(source := argument(node, 0, "input"), Node):
            yield_to(node, source)
    return in_order(graph_module)
