"""The origins of an exported program's nodes in a trace: nodes of the same call of the same module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import torch

from fxlib.ir.node import Node
from fxlib.lowering.places import path_of, span_of


@dataclass
class Origins:
    """``of``: exported node -> the node of the trace that it comes from.  ``values``: traced node -> the exported one
    with its value."""

    of: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def add(self, exported: Node, traced: Node | None, has_value: bool = True) -> None:
        if traced is not None:
            self.of[exported.name] = traced.name
            if has_value:
                self.values[traced.name] = exported.name


def origins(traced: Sequence[Node], exported: Sequence[Node]) -> Origins:
    """The origins of exported nodes. Those of a leaf module's call come from that call, and the last has its value;
    those of functions that a module calls itself come from one of these."""
    leaves = {_calls(node)[-1]: node for node in traced if node.op == "call_module" and _calls(node)}
    inputs = iter(node for node in traced if node.op == "placeholder")
    ends = iter(node for node in traced if node.op == "output")
    functions: dict[str, tuple[list[Node], list[Node]]] = {}
    for node in traced:
        if node.op in ("call_function", "call_method"):
            functions.setdefault((_calls(node) or [""])[-1], ([], []))[0].append(node)
    found = Origins()
    for node in exported:
        calls = _calls(node)
        leaf = next((leaves[each] for each in reversed(calls) if each in leaves), None)
        if node.op in ("placeholder", "output"):
            found.add(node, next(inputs if node.op == "placeholder" else ends, None))
        elif leaf is not None:
            found.add(node, leaf)
        elif (group := functions.get((calls or [""])[-1])) is not None:
            group[1].append(node)
    for ours, theirs in functions.values():
        _align(ours, theirs, found)
    return found


def _align(traced: list[Node], exported: list[Node], found: Origins) -> None:
    """Align the functions of one module call, in order. Equal names match; nodes between two matches belong to the
    trace's nodes there, if that is one node or one of the same line. If none is left there, they belong to the node
    before or after, on the same line. Others have no origin."""
    names = [[_name(node) for node in nodes] for nodes in (traced, exported)]
    at = there = 0
    for block in SequenceMatcher(None, names[0], names[1], autojunk=False).get_matching_blocks():
        left, between = traced[at : block.a], exported[there : block.b]
        for node in between:
            line, nearby = span_of(node), left or traced[max(block.a - 1, 0) : block.a + 1]
            here = left if len(left) == 1 else [each for each in nearby if line is not None and _covers(each, line)]
            sure = len(here) == 1 or (here and not left)
            found.add(node, here[0] if sure else None, has_value=len(left) == 1)
        for one, other in zip(traced[block.a : block.a + block.size], exported[block.b :], strict=False):
            found.add(other, one)
        at, there = block.a + block.size, block.b + block.size


def _calls(node: Node) -> list[str]:
    """The module calls that lead to a node, such as ``layer1.0.relu@1`` for the second call, without the root."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    return [str(key) for key in stack if key]


def _covers(node: Node, line: Any) -> bool:
    return any(step.file == line.file and step.line <= line.line <= step.end_line for step in path_of(node))


_SAME = {
    **dict.fromkeys(("unsqueeze", "select", "slice", "index"), "getitem"),
    "rsub": "sub",
    **dict.fromkeys(("truediv", "itruediv"), "div"),
    **{f"i{name}": name for name in ("add", "sub", "mul")},
    **dict.fromkeys(("flatten", "reshape"), "view"),
    **dict.fromkeys(("mT", "T", "t", "numpy_T", "permute", "swapaxes", "swapdims"), "transpose"),
    **dict.fromkeys(("float", "half", "type", "to_copy"), "to"),
}
"""Operators that count as having the same name."""


def _name(node: Node) -> str:
    target = node.target
    if target is getattr and isinstance(node.args[1], str):
        name = node.args[1]
    elif isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.split("::")[-1]
    else:
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
    name = name.strip("_")
    return _SAME.get(name, name)
