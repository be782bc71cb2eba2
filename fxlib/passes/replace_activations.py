"""Exchange of one activation for another wherever a graph uses it: as a module, a function or a method."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from fxlib.graph_module import GraphModule
from fxlib.node import Node
from fxlib.passes.calls import argument, called, module_of

__all__ = ["replace_activations"]


def replace_activations(
    graph_module: GraphModule, old: str, new: nn.Module | Callable[[torch.Tensor], torch.Tensor]
) -> GraphModule:
    """Replace every ``old`` by ``new``; changes and returns ``graph_module``.

    Args:
        old: the common name: ``"relu"``, ``"gelu"``, ``"silu"``, ``"hardswish"``, ...
        new: a module, of which each place gets a copy, or a function of one tensor.

    The number replaced is in ``meta["replace_activations"]``.
    """
    graph = graph_module.graph
    count = 0
    for node in list(graph.nodes):
        source = argument(node, 0, "input")
        if called(graph_module, node) != old or not isinstance(source, Node):
            continue
        with graph.inserting_before(node):
            if isinstance(new, nn.Module):
                owner = str(node.target) if module_of(graph_module, node) is not None else node.name
                name = _free(graph_module, f"{owner}_replaced")
                graph_module.add_submodule(name, copy.deepcopy(new).train(graph_module.training))
                made = graph.call_module(name, (source,))
            else:
                made = graph.call_function(new, (source,))
        made.meta = {k: v for k, v in node.meta.items() if k != "nn_module_stack"}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        count += 1
    graph_module.delete_all_unused_submodules()
    graph.lint()
    graph_module.recompile()
    graph_module.meta["replace_activations"] = count
    return graph_module


def _free(root: nn.Module, path: str) -> str:
    taken = {name for name, _ in root.named_modules(remove_duplicate=False)}
    name, index = path, 1
    while name in taken:
        name, index = f"{path}_{index}", index + 1
    return name
