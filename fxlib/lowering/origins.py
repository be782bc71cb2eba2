"""Which nodes of a trace the nodes of an exported program come from: those of the same call of the same module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fxlib.ir.node import Node
from fxlib.lowering.places import path_of, span_of


def origins(traced: Sequence[Node], exported: Sequence[Node]) -> dict[str, list[str]]:
    """Exported node -> the nodes of the trace that it comes from; without those that it knows none for."""
    leaves = {_calls(node)[-1]: node for node in traced if node.op == "call_module" and _calls(node)}
    groups: dict[str, _Group] = {}
    for node in traced:
        if node.op in ("call_function", "call_method", "get_attr"):
            groups.setdefault((_calls(node) or [""])[-1], _Group()).nodes.append(node)
    inputs = iter(node for node in traced if node.op == "placeholder")
    ends = [node for node in traced if node.op == "output"]
    found: dict[str, Node | None] = {}
    for node in exported:
        calls = _calls(node)
        leaf = next((leaves[each] for each in reversed(calls) if each in leaves), None)
        if node.op == "placeholder":
            leaf = next(inputs, None)
        elif node.op == "output":
            leaf = next(iter(ends), None)
        elif leaf is None and (group := groups.get((calls or [""])[-1])) is not None:
            leaf = group.take(node)
        found[node.name] = leaf
    return {name: [node.name] for name, node in found.items() if node is not None}


class _Group:
    """The functions that one call of a module calls itself, in order, and how far they are taken."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.taken = 0

    def take(self, node: Node) -> Node:
        """The next one of the same name, of the same line where there is one; else the last that was taken, of which
        this node is a part."""
        name, line = _name(node), span_of(node)
        left = range(self.taken, len(self.nodes))
        alike = [at for at in left if _name(self.nodes[at]) == name]
        here = [at for at in alike if line is None or _covers(self.nodes[at], line)]
        if chosen := (here or alike)[:1]:
            self.taken = chosen[0] + 1
        return self.nodes[max(self.taken - 1, 0)]


def _calls(node: Node) -> list[str]:
    """The calls of modules that lead to a node, such as ``layer1.0.relu@1`` for the second of it; not the root's."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    names = (str(key).removeprefix("L__self__model").removeprefix(".") for key in stack)
    return [name for name in names if name]


def _covers(node: Node, line: Any) -> bool:
    return any(step.file == line.file and step.line <= line.line <= step.end_line for step in path_of(node))


_SAME = {"truediv": "div", "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "flatten": "view"}


def _name(node: Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[-1]
    else:
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
    name = name.strip("_")
    return _SAME.get(name, name)
