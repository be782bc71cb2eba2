"""Edits that passes share: replacing a node, finding a free name, finishing a graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.arguments import Target
from fxlib.ir.node import Node
from fxlib.ir.paths import attribute_of_modules

__all__ = ["between", "checked", "free_path", "in_order", "insert_like", "place_module", "yield_to"]

_ABSENT = object()


def yield_to(node: Node, other: Node) -> None:
    """Replace ``node`` by ``other`` for all users, and erase it."""
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def insert_like(model: Node, place: Node, op: str, target: Target, /, *args: Any, **kwargs: Any) -> Node:
    """A new node before ``place`` with the metadata of ``model``."""
    with place.graph.inserting_before(place):
        made = place.graph.create_node(op, target, args, kwargs)
    made.meta.update(model.meta)
    return made


def free_path(root: nn.Module, wanted: str) -> str:
    """``wanted``, or the first of ``wanted_1``, ``wanted_2``, … where ``root`` has nothing yet."""
    candidates = itertools.chain([wanted], map(f"{wanted}_{{}}".format, itertools.count(1)))
    return next(path for path in candidates if attribute_of_modules(root, path, _ABSENT) is _ABSENT)


def place_module(graph_module: GraphModule, made: nn.Module, layer: Node, suffix: str) -> str:
    """Put a module that replaces one call of a layer in the layer's place, and return its path. It goes beside the
    layer if that is still needed by another node, under one of its names or inside a module that is called as a whole.
    """
    path = str(layer.target)
    old = graph_module.get_submodule(path)
    names = {name for name, m in graph_module.named_modules(remove_duplicate=False) if m is old}
    reached = {name[:end] for name in names for end in (i for i, c in enumerate(f"{name}.") if c == ".")}
    needed = any(
        (node.op == "call_module" and str(node.target) in reached)
        or (node.op == "get_attr" and str(node.target).rpartition(".")[0] in names)
        for node in graph_module.graph.nodes
        if node is not layer
    )
    place = free_path(graph_module, f"{path}{suffix}") if needed else path
    graph_module.add_submodule(place, made)
    return place


def between(first: Node, last: Node) -> Iterator[Node]:
    """The nodes after ``first`` and before ``last``; either may be moved once a node has been yielded."""
    node = first.next
    while node is not last:
        yield node
        node = node.next


def in_order(graph_module: GraphModule, **report: Any) -> GraphModule:
    """Finish a pass: drop modules without use, then as `checked`."""
    graph_module.delete_all_unused_submodules()
    return checked(graph_module, **report)


def checked(graph_module: GraphModule, **report: Any) -> GraphModule:
    """Check the changed graph, regenerate its code, and store ``report`` in ``meta``."""
    graph_module.graph.lint()
    graph_module.recompile()
    graph_module.meta.update(report)
    return graph_module
