"""Which nodes share memory, and what that forbids.

An engine's results are new memory, so a graph that writes in place may be cut only where nobody can tell. Nodes are
put into groups that may share memory: views with what they view, in-place operators with what they write, and
operators of unknown behaviour with all their inputs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn as nn

from ..graph_module import GraphModule
from ..node import Node
from .onnx.registry import find, is_in_place
from .values import attribute

VIEWS = frozenset({
    "view", "reshape", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "select", "narrow", "chunk",
    "split", "unbind", "flatten", "getitem", "diagonal", "detach", "expand_as", "view_as", "unflatten", "movedim",
    "moveaxis", "swapaxes", "swapdims", "slice", "contiguous", "to", "float", "type_as", "dropout", "alias",
    "as_strided", "unfold",
    "split_with_sizes", "tensor_split", "_unsafe_view", "_reshape_alias", "reshape_as", "broadcast_to", "real", "data",
    "requires_grad_", "lift_fresh_copy", "adjoint", "mT", "T", "getattr", "tuple", "list", "__getitem__",
})  # fmt: skip
_VIEW_MODULES = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class Aliases:
    """The memory groups and in-place writes of one graph."""

    def __init__(self, gm: GraphModule) -> None:
        self._parent: dict[Node, Node] = {}
        self.order: dict[Node, int] = {}
        self.writes: list[Node] = []
        for index, node in enumerate(gm.graph.nodes):
            self.order[node] = index
            self._parent[node] = node
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            owner = attribute(gm, node.target) if node.op == "call_module" else None
            if is_in_place(node, owner) and node.args and isinstance(node.args[0], Node):
                self.writes.append(node)
                self._join(node, node.args[0])
            elif _is_view(node, owner):
                first = node.args[0] if node.args else None
                if isinstance(first, Node):
                    self._join(node, first)
            elif find(node.op, node.target, owner) is None:
                for source in node.all_input_nodes:
                    self._join(node, source)
        self._groups: dict[Node, list[Node]] = {}
        for node in self.order:
            self._groups.setdefault(self._root(node), []).append(node)

    def group(self, node: Node) -> list[Node]:
        """The nodes that may share memory with `node`, itself included, in order."""
        return self._groups[self._root(node)]

    def visible_write(self, node: Node) -> bool:
        """Whether others can tell that `node` wrote in place, so that a functional copy would differ."""
        place = self.order[node]
        for member in self.group(node):
            if member.op in ("placeholder", "get_attr"):
                return True
            if self.order[member] < place and any(self.order[user] > place for user in member.users):
                return True
        return False

    def readers(self, node: Node) -> list[Node]:
        """Every node that reads memory of `node`'s group."""
        return list(dict.fromkeys(user for member in self.group(node) for user in member.users))

    def _root(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def _join(self, a: Node, b: Node) -> None:
        self._parent[self._root(a)] = self._root(b)


def _is_view(node: Node, owner: Any) -> bool:
    if node.op == "call_module":
        return isinstance(owner, _VIEW_MODULES)
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target.is_view or target._schema.name.split("::")[1] in VIEWS
    if target is operator.getitem or target is getattr:
        return True
    return (target if isinstance(target, str) else getattr(target, "__name__", "")) in VIEWS
