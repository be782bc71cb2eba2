"""A stand-in for a library with a copy of an older torch.fx, like Brevitas (``brevitas.backport.fx``): classes of the
same names that are not torch's."""

from __future__ import annotations

from typing import Any

import torch.fx
from torch.utils._pytree import tree_map


class Node:
    def __init__(self, node: torch.fx.Node, copies: dict[Any, Node]) -> None:
        self.op, self.name, self.target, self.type = node.op, node.name, node.target, node.type
        stack = node.meta.get("nn_module_stack", {})
        self.meta = {"nn_module_stack": dict(stack.values())}  # as it was then: the class alone
        copied = lambda value: copies[value] if isinstance(value, torch.fx.Node) else value  # noqa: E731
        self.args, self.kwargs = tree_map(copied, tuple(node.args)), tree_map(copied, dict(node.kwargs))
        self.users: dict[Node, None] = {}
        for used in node.all_input_nodes:
            copies[used].users[self] = None

    def __repr__(self) -> str:
        return self.name


class CodeGen:
    _body_transformer = None


class _PyTreeCodeGen(CodeGen):
    pass


class _PyTreeInfo:
    pass


class Graph:
    _tracer_extras = None

    def __init__(self, graph: torch.fx.Graph) -> None:
        copies: dict[Any, Node] = {}
        for node in graph.nodes:
            copies[node] = Node(node, copies)
        self.nodes, self._codegen = list(copies.values()), CodeGen()


class Tracer(torch.fx.Tracer):
    """Keeps torch's layers, as torch.fx does, and a class named Gate as leaves."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return type(m).__name__ == "Gate" or super().is_leaf_module(m, module_qualified_name)

    def trace(self, root: Any, concrete_args: Any = None) -> Any:
        return Graph(super().trace(root, concrete_args))
