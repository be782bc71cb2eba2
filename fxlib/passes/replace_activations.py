"""Exchange of one activation for another wherever a graph uses it: as a module, a function or a method.

Preconditions: none. Where an in-place activation is seen by others (``relu_(y)`` and ``y`` is read again), the new
value is written to the same memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import argument, called, module_of, mutates

__all__ = ["replace_activations"]


def replace_activations(
    graph_module: GraphModule, old: str, new: nn.Module | Callable[[torch.Tensor], torch.Tensor]
) -> GraphModule:
    """Replace every ``old`` by ``new``; changes and returns ``graph_module``.

    Args:
        old: the common name: ``"relu"``, ``"gelu"``, ``"silu"``, ``"hardswish"``, ...
        new: a module, of which each place gets a copy that is not in-place, or a function of one tensor.

    The number replaced is in ``meta["replace_activations"]``.

    Raises:
        TypeError: ``new`` is neither.
    """
    check_traced(graph_module, "replace_activations()")
    if not callable(new):
        raise TypeError(f"replace_activations(new=...) takes a module or a function of one tensor, not {new!r}")
    graph = graph_module.graph
    memory = Aliases(graph_module)
    visible = {n for n in graph.nodes if mutates(graph_module, n) is not None and memory.visible_write(n)}
    count = 0
    for node in list(graph.nodes):
        source = argument(node, 0, "input")
        if called(graph_module, node) != old or not isinstance(source, Node):
            continue
        with graph.inserting_before(node):
            if isinstance(new, nn.Module):
                owner = str(node.target) if module_of(graph_module, node) is not None else node.name
                name = _free(graph_module, f"{owner}_replaced")
                graph_module.add_submodule(name, _out_of_place(copy.deepcopy(new)).train(graph_module.training))
                made = graph.call_module(name, (source,))
            else:
                made = graph.call_function(new, (source,))
            if node in visible:
                made = graph.call_method("copy_", (source, made))
        made.meta = {k: v for k, v in node.meta.items() if k != "nn_module_stack"}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        count += 1
    graph_module.delete_all_unused_submodules()
    graph.lint()
    graph_module.recompile()
    graph_module.meta["replace_activations"] = count
    return graph_module


def _out_of_place(module: nn.Module) -> nn.Module:
    """``module``, set to leave its input alone: what it replaces may be read again."""
    if getattr(module, "inplace", False) is True:
        module.inplace = False  # type: ignore[assignment]
    return module


def _free(root: nn.Module, path: str) -> str:
    taken = {name for name, _ in root.named_modules(remove_duplicate=False)}
    name, index = path, 1
    while name in taken:
        name, index = f"{path}_{index}", index + 1
    return name
