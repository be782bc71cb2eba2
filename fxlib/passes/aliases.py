"""Which nodes of a graph may share memory, and which memory is changed in place.

Conservative and without running: an operator that is known to make a new tensor ends a chain of aliases, every other
one is taken to return views of its inputs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn

from fxlib.node import Node
from fxlib.passes.calls import called, mutates

__all__ = ["changed_in_place"]

_FRESH = frozenset(
    [
        "relu",
        "relu6",
        "leaky_relu",
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "silu",
        "sigmoid",
        "tanh",
        "gelu",
        "selu",
        "elu",
        "conv1d",
        "conv2d",
        "conv3d",
        "linear",
        "max_pool2d",
        "avg_pool2d",
        "batch_norm",
        "layer_norm",
        "embedding",
        "softmax",
        "cat",
        "add",
        "mul",
    ]
)
_FRESH_METHODS = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "neg",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "argmax",
        "softmax",
        "log_softmax",
        "matmul",
        "bmm",
        "mm",
        "clone",
        "sigmoid",
        "tanh",
        "relu",
        "abs",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "size",
        "dim",
        "numel",
        "stride",
        "masked_fill",
        "repeat",
    ]
)
_FRESH_OPERATORS: frozenset[Any] = frozenset(
    {
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.matmul,
        operator.pow,
        operator.neg,
        operator.eq,
        operator.ne,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
        operator.mod,
    }
)
_FRESH_FUNCTIONS: frozenset[Any] = frozenset(
    getattr(torch, name)
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "neg",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "argmax",
        "matmul",
        "bmm",
        "mm",
        "addmm",
        "cat",
        "stack",
        "clone",
        "where",
        "abs",
        "softmax",
        "log_softmax",
        "relu",
        "erf",
        "cumsum",
        "einsum",
        "zeros",
        "ones",
        "arange",
        "full",
        "zeros_like",
        "ones_like",
    ]
)


def changed_in_place(root: nn.Module, nodes: Any) -> set[Node]:
    """The nodes whose value may be changed by an in-place operator of the graph, through whatever alias."""
    parent: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while parent.setdefault(node, node) is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    nodes = list(nodes)
    changed: list[Node] = []
    for node in nodes:
        target = mutates(root, node)
        if target is not None:
            changed.append(target)
            parent[find(node)] = find(target)
        elif not _is_fresh(root, node):
            for source in node.all_input_nodes:
                parent[find(node)] = find(source)
    sets = {find(node) for node in changed}
    return {node for node in nodes if find(node) in sets}


def _is_fresh(root: nn.Module, node: Node) -> bool:
    if node.op in ("placeholder", "get_attr"):
        return True
    if node.op == "call_method":
        return str(node.target) in _FRESH_METHODS
    if called(root, node) in _FRESH:
        return True
    if node.op != "call_function":
        return False
    try:
        if node.target in _FRESH_OPERATORS or node.target in _FRESH_FUNCTIONS:
            return True
    except TypeError:
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not any(result.alias_info is not None for result in schema.returns)
