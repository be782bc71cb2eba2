"""Replacement of one activation by another wherever a graph uses it: as a module, a function or a method.

Preconditions: none. If an in-place activation is visible elsewhere (``relu_(y)``, and ``y`` is read again), the new
value is written to the same memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.arguments import Target
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import NAMES, argument, called, module_of, mutates
from fxlib.passes.edits import free_path, in_order, insert_like, yield_to

__all__ = ["replace_activations"]


def replace_activations(
    graph_module: GraphModule, old: str, new: nn.Module | Callable[[torch.Tensor], torch.Tensor]
) -> GraphModule:
    """Replace every ``old`` by ``new``; changes and returns ``graph_module``.

    Args:
        old: the common name: ``"relu"``, ``"gelu"``, ``"silu"``, ``"hardswish"``, ...
        new: a module, copied for each place with in-place off, or a function of one tensor.

    The number replaced is in ``meta["replace_activations"]``.

    Raises:
        TypeError: ``new`` is neither.
        ValueError: no operator has the name ``old``.
    """
    check_traced(graph_module, "replace_activations()")
    if not isinstance(old, str) or old not in NAMES:
        raise ValueError(
            f"replace_activations() does not know the operator {old!r}; names are for example 'relu', 'gelu', 'silu'"
        )
    if not callable(new) or isinstance(new, type):
        hint = "; make an instance of the class" if isinstance(new, type) else ""
        raise TypeError(f"replace_activations(new=...) takes a module or a function of one tensor, not {new!r}{hint}")
    memory = Aliases(graph_module)
    found = [n for n in graph_module.graph.nodes if called(graph_module, n) == old]
    found = [n for n in found if isinstance(argument(n, 0, "input"), Node)]
    visible = {n for n in found if mutates(graph_module, n) is not None and memory.visible_write(n)}
    for node in found:
        source = argument(node, 0, "input")
        made = insert_like(node, node, *_form_of(new, graph_module, node), source)
        made.meta.pop("nn_module_stack", None)
        if node in visible:
            made = insert_like(made, node, "call_method", "copy_", source, made)
        yield_to(node, made)
    return in_order(graph_module, replace_activations=len(found))


def _form_of(new: nn.Module | Callable[..., Any], graph_module: GraphModule, node: Node) -> tuple[str, Target]:
    """Op and target for the replacement of ``node``; a module is installed next to the one it replaces."""
    if not isinstance(new, nn.Module):
        return "call_function", new
    owner = node.name if module_of(graph_module, node) is None else node.target
    path = free_path(graph_module, f"{owner}_replaced")
    graph_module.add_submodule(path, _out_of_place(copy.deepcopy(new)).train(graph_module.training))
    return "call_module", path


def _out_of_place(module: nn.Module) -> nn.Module:
    """``module`` with in-place off, since its input may be read again."""
    if getattr(module, "inplace", False) is True:
        module.inplace = False  # type: ignore[assignment]
    return module
