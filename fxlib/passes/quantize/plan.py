"""Which nodes of a graph can work on 8-bit integers, and which values must share one scale.

A table of kinds: *layers* hold weights, *carriers* move values without computing (they keep their input's scale),
*sums* have a kernel of their own. All other operators stay in float, and so does everything that uses memory with
visible in-place changes: the two forms of one value would not change together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import as_sequence
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import argument, called, module_of, mutates
from fxlib.passes.layouts import changed_while_seen
from fxlib.passes.optimize_for_inference import post_operation
from fxlib.passes.packed_layers import NONE, PostOp

__all__ = ["Layer", "Plan", "carried", "make_plan"]

CARRIERS = frozenset(("max_pool2d", "flatten", "reshape", "cat", "relu", "identity", "contiguous"))
FUSED_AFTER_LAYER = frozenset(("relu", "hardtanh"))


@dataclass(frozen=True)
class Layer:
    """A conv or linear node, the last node of its post-operations, and the post-operation.

    ``other`` is what a convolution adds before the post-operation, if anything.
    """

    node: Node
    last: Node
    post: PostOp
    other: Node | None = None


@dataclass
class Plan:
    """Layers by node, sums and carriers, and for each node the representative of those that share its scale."""

    layers: dict[Node, Layer] = field(default_factory=dict)
    sums: dict[Node, Node] = field(default_factory=dict)  # addition -> its last node (itself or its ReLU)
    carriers: set[Node] = field(default_factory=set)
    swallowed: set[Node] = field(default_factory=set)  # nodes inside a layer or sum, except the last
    group: dict[Node, Node] = field(default_factory=dict)

    def representative(self, node: Node) -> Node:
        while (parent := self.group.get(node, node)) is not node:
            node = parent
        return node

    def join(self, a: Node, b: Node) -> None:
        self.group[self.representative(a)] = self.representative(b)

    def observed(self) -> set[Node]:
        """Nodes whose values calibration must observe."""
        found = {layer.node.args[0] for layer in self.layers.values()} | {layer.last for layer in self.layers.values()}
        found |= {layer.other for layer in self.layers.values() if layer.other is not None}
        for add, last in self.sums.items():
            found |= {*add.all_input_nodes, last}
        for node in self.carriers:
            found |= {*carried(node), node}
        return {n for n in found if isinstance(n, Node)}


def make_plan(graph_module: GraphModule, skip: frozenset[str] = frozenset()) -> Plan:
    """Find what can be quantized; shapes must have been propagated. ``skip`` names layers to leave in float."""
    plan = Plan()
    ends: set[Node] = set()
    shared = changed_while_seen(graph_module) | Aliases(graph_module).changed_state()
    for node in graph_module.graph.nodes:
        if node in plan.swallowed or node in ends or not shared.isdisjoint((node, *node.all_input_nodes)):
            continue
        module = module_of(graph_module, node)
        if module is not None and node.name not in skip and str(node.target) not in skip and _is_layer(module, node):
            layer = _with_post_operations(graph_module, node, type(module) is nn.Conv2d, ends | plan.swallowed)
            if not shared.isdisjoint((layer.last, layer.other)):
                continue
            plan.layers[node] = layer
            ends.add(layer.last)
            inner = node
            while inner is not layer.last:
                plan.swallowed.add(inner)
                inner = next(iter(inner.users))
        elif called(graph_module, node) == "add" and _is_sum(node):
            last = node
            follower = next(iter(node.users)) if len(node.users) == 1 else None
            if follower is not None and called(graph_module, follower) == "relu":
                last = follower
            if last in shared:
                continue
            if last is not node:
                plan.swallowed.add(node)
            plan.sums[node] = last
            ends.add(last)
        elif called(graph_module, node) in CARRIERS and _carries(graph_module, node):
            plan.carriers.add(node)
    for node in plan.carriers:
        for source in carried(node):
            plan.join(source, node)
    return plan


def carried(node: Node) -> list[Node]:
    """The tensors that a carrier moves; its other inputs are sizes, which stay unchanged."""
    return [n for n in node.all_input_nodes if _rank(n) is not None]


def _is_layer(module: nn.Module, node: Node) -> bool:
    if is_altered(module) or not isinstance(argument(node, 0, "input"), Node) or not node.args:
        return False
    if type(module) is nn.Conv2d:
        plain = module.padding_mode == "zeros" and not isinstance(module.padding, str)
        return plain and module.weight.dtype is torch.float32 and _rank(node.args[0]) == 4
    return type(module) is nn.Linear and module.weight.dtype is torch.float32 and (_rank(node.args[0]) or 0) >= 2


def _rank(node: object) -> int | None:
    meta: Any = node.meta.get("tensor_meta") if isinstance(node, Node) else None
    return len(meta.shape) if hasattr(meta, "shape") else None


def _with_post_operations(root: GraphModule, node: Node, with_sum: bool, taken: set[Node]) -> Layer:
    last, other = node, None
    follower = next(iter(node.users)) if len(node.users) == 1 else None
    if (
        with_sum
        and follower is not None
        and follower not in taken
        and called(root, follower) == "add"
        and _is_sum(follower)
    ) and mutates(root, follower) in (None, node):
        last, other = follower, next(n for n in follower.all_input_nodes if n is not node)
        follower = next(iter(last.users)) if len(last.users) == 1 else None
    post = None if follower is None else post_operation(root, follower)
    if (
        follower is None
        or post is None
        or post.name not in FUSED_AFTER_LAYER
        or (other is not None and post.name != "relu")
    ):
        return Layer(node, last, NONE, other)
    return Layer(node, follower, post, other)


def _is_sum(node: Node) -> bool:
    if len(node.args) != 2 or node.kwargs or len(node.all_input_nodes) != 2:
        return False
    metas: list[Any] = [n.meta.get("tensor_meta") for n in node.all_input_nodes]
    if not all(hasattr(m, "shape") for m in metas):
        return False
    return (
        metas[0].shape == metas[1].shape and all(m.dtype is torch.float32 for m in metas) and len(metas[0].shape) == 4
    )


def _carries(root: GraphModule, node: Node) -> bool:
    module = module_of(root, node)
    if called(root, node) == "max_pool2d" and _rank(node) != 4:
        return False
    if getattr(module, "return_indices", False) or node.kwargs.get("return_indices"):
        return False
    first = argument(node, 0, "tensors" if called(root, node) == "cat" else "input")
    given = as_sequence(first)
    if not all(isinstance(each, Node) for each in given) or set(given) != set(carried(node)):
        return False
    metas: list[Any] = [each.meta.get("tensor_meta") for each in (node, *given)]
    return all(hasattr(meta, "shape") and meta.dtype is torch.float32 for meta in metas) and not any(
        isinstance(arg, torch.dtype) for arg in (*node.args, *node.kwargs.values())
    )
