"""Inference on CPU: batch norms folded, dropouts removed, convolutions and linear layers packed for oneDNN with the
operators after them.

Preconditions: evaluation mode, float32, no gradients wanted from the result. Convolutions run in channels-last; an
activation, or an addition and a ReLU, that is the only user of one becomes its post-operation; a sum is written into
its other operand if that is not needed any more.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import torch
from torch import nn

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_float_graph, check_traced
from fxlib.ir.modules import is_altered
from fxlib.ir.node import Node
from fxlib.passes.aliases import Aliases
from fxlib.passes.calls import argument, called, may_write, metadata_read, module_of, mutates
from fxlib.passes.dropout import remove_dropout
from fxlib.passes.edits import between, free_path, in_order, insert_like
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.layouts import keep_layouts
from fxlib.passes.packed_layers import NONE, PackedConv2d, PackedLinear, PostOp
from fxlib.passes.utils.fuser_utils import erase_nodes
from fxlib.shapes import propagate
from fxlib.shapes.propagation import check_count

__all__ = ["optimize_for_inference", "pack_layers"]


def optimize_for_inference(graph_module: GraphModule, *example_inputs: Any) -> GraphModule:
    """Fold, clean and pack; changes and returns ``graph_module``.

    Args:
        example_inputs: one per placeholder; only shapes are used. Without them only rewrites that need no shapes are
            done (additions do not become post-operations).
    """
    check_float_graph(graph_module, "optimize_for_inference()")
    if example_inputs:
        check_count(graph_module, example_inputs, "optimize_for_inference()")
        propagate(graph_module, *example_inputs)
    fuse_conv_bn(graph_module)
    remove_dropout(graph_module)
    return pack_layers(graph_module)


def pack_layers(graph_module: GraphModule, keep: Collection[Node] = ()) -> GraphModule:
    """Replace ``nn.Conv2d`` and ``nn.Linear`` by packed layers, each with its post-operations, except those that nodes
    of ``keep`` call.
    """
    check_traced(graph_module, "pack_layers()")
    keep_layouts(graph_module)
    written = Aliases(graph_module).changed_state()  # a packed weight is a copy
    made: dict[Hashable, str] = {}
    for node in list(graph_module.graph.nodes):
        module = module_of(graph_module, node)
        if module is None or node in keep or node in written or not _packable(module):
            continue
        with_sum = type(module) is nn.Conv2d
        last, other, post = _post_operations(graph_module, node, with_sum)
        key = (id(module), post)
        if key not in made:
            packed = PackedConv2d(module, post) if isinstance(module, nn.Conv2d) else PackedLinear(module, post)  # type: ignore[arg-type]
            packed.eval()
            made[key] = free_path(graph_module, f"{node.target}_packed")
            graph_module.add_submodule(made[key], packed)
        chain = _chain(node, last)
        readers = [reader for each in chain for reader in each.users if metadata_read(reader) is not None]
        # A sum is computed where it was: what follows it may come after a write to what the layer reads.
        place, operands = (node, ()) if other is None else (next(iter(node.users)), (other,))
        new = insert_like(last, place, "call_module", made[key], argument(node, 0, "input"), *operands)
        last.replace_all_uses_with(new)
        for reader in readers:
            reader.args = (new, *reader.args[1:])
        erase_nodes(graph_module, chain)
    _sum_in_place(graph_module)
    return in_order(graph_module)


def _sum_in_place(graph_module: GraphModule) -> None:
    """Let a convolution with a sum write into the other operand if that is the graph's own memory and not read
    afterwards. Decided on the packed graph, since packing moves layers to the place of their post-operations."""
    memory = Aliases(graph_module)
    made: dict[str, str] = {}
    for node in list(graph_module.graph.nodes):
        module = module_of(graph_module, node)
        if type(module) is not PackedConv2d or len(node.args) != 2:
            continue
        source, other = node.args
        if not isinstance(source, Node) or not isinstance(other, Node):
            continue
        if not memory.keys(other) or memory.may_share(source, other) or not memory.dead_after(other, node):
            continue
        path = str(node.target)
        if path not in made:
            made[path] = free_path(graph_module, f"{path}_into")
            graph_module.add_submodule(made[path], module.into())
        node.target = made[path]
        memory.fuse(other, node)


def _packable(module: nn.Module) -> bool:
    if is_altered(module) or "parametrizations" in module._modules:
        return False
    if type(module) is nn.Conv2d:
        return (
            module.padding_mode == "zeros"
            and not isinstance(module.padding, str)
            and module.weight.dtype is torch.float32
        )
    return type(module) is nn.Linear and module.weight.dtype is torch.float32


def _post_operations(root: GraphModule, node: Node, with_sum: bool) -> tuple[Node, Node | None, PostOp]:
    """The last node that the layer can absorb, the other operand of an addition, and the activation."""
    last, other = node, None
    follower = _only_user(node)
    if follower is None:
        return node, None, NONE
    if (
        with_sum
        and len(node.users) == 1
        and called(root, follower) == "add"
        and (found := _other_operand(follower, node)) is not None
    ):
        plain = mutates(root, follower) in (None, node) and "alpha" not in follower.kwargs
        if plain and _same_tensor_kind(node, found) and not _mutation_between(root, node, follower):
            last, other = follower, found
            follower = _only_user(last)
            if follower is None:
                return last, other, NONE
    post = post_operation(root, follower)
    if post is None or (other is not None and post.name != "relu"):
        return last, other, NONE
    return follower, other, post


def post_operation(root: nn.Module, node: Node) -> PostOp | None:
    """The node as a post-operation, or None."""
    name = called(root, node)
    if name is None or not node.args or not isinstance(node.args[0], Node) or len(node.all_input_nodes) != 1:
        return None
    module = module_of(root, node)
    if name in ("relu", "hardswish", "hardsigmoid", "sigmoid", "tanh"):
        return PostOp(name)
    if name == "silu":
        return PostOp("swish")
    if name == "relu6":
        return PostOp("hardtanh", (0.0, 6.0))
    if name == "hardtanh":
        low = getattr(module, "min_val", argument(node, 1, "min_val", -1.0))
        high = getattr(module, "max_val", argument(node, 2, "max_val", 1.0))
        return PostOp("hardtanh", (float(low), float(high)))
    if name == "leaky_relu":
        return PostOp(
            "leaky_relu", (float(getattr(module, "negative_slope", argument(node, 1, "negative_slope", 0.01))),)
        )
    if name == "gelu":
        return PostOp("gelu", (), getattr(module, "approximate", node.kwargs.get("approximate", "none")))
    return None


def _only_user(node: Node) -> Node | None:
    """The only user that reads values; reads of metadata do not count, since a post-operation keeps it."""
    users = [user for user in node.users if metadata_read(user) is None]
    return users[0] if len(users) == 1 else None


def _mutation_between(root: nn.Module, first: Node, last: Node) -> bool:
    """Whether anything may be changed in place between the two, so that the layer must not be computed later."""
    return any(mutates(root, node) is not None or may_write(root, node) for node in between(first, last))


def _other_operand(add: Node, node: Node) -> Node | None:
    operands = [a for a in add.args if isinstance(a, Node)]
    if len(add.args) != 2 or len(operands) != 2 or operands[0] is operands[1]:
        return None
    return operands[1] if operands[0] is node else operands[0]


def _same_tensor_kind(a: Node, b: Node) -> bool:
    """Both known and alike in shape and dtype: the kernel's sum does not broadcast."""
    found: Any = [node.meta.get("tensor_meta") for node in (a, b)]
    kinds = [(tuple(meta.shape), meta.dtype) for meta in found if hasattr(meta, "shape")]
    return len(kinds) == 2 and kinds[0] == kinds[1] and kinds[0][1] is torch.float32 and len(kinds[0][0]) == 4


def _chain(first: Node, last: Node) -> list[Node]:
    """The nodes from ``first`` to ``last``, each the only user of the one before."""
    nodes = [first]
    while nodes[-1] is not last:
        nodes.append(next(user for user in nodes[-1].users if metadata_read(user) is None))
    return nodes
