"""Removal of what passes its input through: dropout in evaluation mode and ``nn.Identity``."""

from __future__ import annotations

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.calls import argument, called, is_dropout_off

__all__ = ["remove_dropout"]


def remove_dropout(graph_module: GraphModule) -> GraphModule:
    """Erase every dropout that is off and every identity; changes and returns ``graph_module``.

    A dropout in training mode stays: it is part of what the model computes there.
    """
    check_traced(graph_module, "remove_dropout()")
    for node in list(graph_module.graph.nodes):
        if called(graph_module, node) == "identity" or is_dropout_off(graph_module, node):
            source = argument(node, 0, "input")
            if isinstance(source, Node):
                node.replace_all_uses_with(source)
                graph_module.graph.erase_node(node)
    graph_module.delete_all_unused_submodules()
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module
