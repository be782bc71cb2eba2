"""Which nodes go to the engine together, and which stay in PyTorch.

Nodes get levels in topological order: convertible nodes even ones, the others odd ones, each the lowest level of its
parity that is not below its inputs'. Nodes of one even level are one part. Edges never lead to a lower level, so parts
cannot depend on each other in a cycle, and are as large as that allows.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.node import Node
from fxlib.lowering.onnx.export import Reason, unsupported
from fxlib.passes.aliases import Aliases
from fxlib.passes.split_module import split_module

MIN_NODES = 3
"""A part with fewer converted nodes than this stays in PyTorch: calling an engine costs more than it saves."""


@dataclass(frozen=True)
class Part:
    """One submodule of the split graph."""

    name: str
    engine: bool
    nodes: tuple[str, ...]


@dataclass
class Split:
    """A graph cut into parts."""

    module: GraphModule
    """A GraphModule whose submodules are the parts, `submod_<level>`."""
    parts: list[Part]
    reasons: dict[str, Reason]
    """Node name -> why it stays in PyTorch."""


def split(
    gm: GraphModule, values: dict[Node, Any], min_nodes: int = MIN_NODES, known: Mapping[Node, Reason] | None = None
) -> Split:
    """Cut a graph into maximal convertible parts and the rest.

    Args:
        gm: a GraphModule.
        values: example values from `fxlib.lowering.values.propagate`.
        min_nodes: the smallest number of converted operators in a part for an engine.
        known: nodes that stay in PyTorch for a reason found elsewhere.
    """
    reasons, levels = plan(gm, values, min_nodes, known)
    outer = split_module(gm, gm, lambda node: levels[node])
    _in_level_order(outer)
    present = {name for name, _ in outer.named_children()}
    parts = [
        Part(f"submod_{level}", level % 2 == 0, tuple(node.name for node in nodes))
        for level, nodes in sorted(_by_level(levels).items())
        if f"submod_{level}" in present
    ]
    return Split(outer, parts, {node.name: reason for node, reason in reasons.items()})


def plan(
    gm: GraphModule, values: dict[Node, Any], min_nodes: int, known: Mapping[Node, Reason] | None = None
) -> tuple[dict[Node, Reason], dict[Node, int]]:
    """The nodes that stay in PyTorch, and the level of every node; nothing is split yet."""
    aliases = Aliases(gm)
    reasons = {**unsupported(gm, values, aliases), **(known or {})}
    alone = not reasons
    while True:
        _keep_memory_together(gm, reasons, aliases)
        levels = _levels(gm, values, reasons, aliases)
        small = {} if alone else _too_small(gm, levels, reasons, min_nodes)
        if not small:
            return reasons, levels
        reasons.update(small)


def _keep_memory_together(gm: GraphModule, reasons: dict[Node, Reason], aliases: Aliases) -> None:
    """Nodes that share memory with an in-place write in PyTorch stay there: an engine would get a copy. So do, of a
    function that may write, views that are read after it."""
    for write in aliases.writes:
        if write in reasons:
            for member in aliases.group(write):
                if member.op not in ("placeholder", "get_attr", "output") and member not in reasons:
                    text = f"it shares memory with {write.name!r}, which writes in place and stays in PyTorch"
                    reasons[member] = Reason("FX403", text, write.name)
    for call, given in aliases.may_write.items():
        if call in reasons:
            for view in aliases.views_read_after(call):
                if view not in given and view not in reasons:
                    text = f"it shares memory with {call.name!r}, which may write to that and stays in PyTorch"
                    reasons[view] = Reason("FX403", text, call.name)


def _in_level_order(outer: GraphModule) -> None:
    """Call the parts in the order of their levels: nothing else orders a read and a write of the same memory."""
    output = outer.graph.output_node()
    calls = outer.graph.find_nodes(op="call_module")
    for call in sorted(calls, key=lambda node: int(str(node.target).rpartition("_")[2])):
        followers = [user for user in call.users if user.target is operator.getitem]
        for node in (call, *followers):
            output.prepend(node)
    outer.graph.lint()
    outer.recompile()


def _levels(gm: GraphModule, values: dict[Node, Any], reasons: dict[Node, Reason], aliases: Aliases) -> dict[Node, int]:
    levels: dict[Node, int] = {}
    # Edges without data: reads and writes of the same memory keep their order.
    before: dict[Node, list[Node]] = defaultdict(list)
    for write in (*aliases.writes, *aliases.may_write):
        if write in reasons:
            for reader in aliases.readers(write):
                early, late = sorted((reader, write), key=aliases.order.__getitem__)
                if early is not late:
                    before[late].append(early)
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        parity = 1 if node in reasons else 0
        level = max((levels[a] for a in (*node.all_input_nodes, *before[node]) if a in levels), default=0)
        levels[node] = level if level % 2 == parity else level + 1
    _pull_unpacking(gm, values, levels)
    return levels


def _pull_unpacking(gm: GraphModule, values: dict[Node, Any], levels: dict[Node, int]) -> None:
    """Keep an item or attribute of a tuple with the node that made it, since engines pass tensors only."""
    for node in levels:
        if node.target in (operator.getitem, getattr):
            source = node.args[0]
            if levels.get(source, 0) % 2 == 1 and not isinstance(values.get(source), torch.Tensor):
                levels[node] = levels[source]


def _by_level(levels: dict[Node, int]) -> dict[int, list[Node]]:
    members: dict[int, list[Node]] = defaultdict(list)
    for node, level in levels.items():
        members[level].append(node)
    return members


def _too_small(
    gm: GraphModule, levels: dict[Node, int], reasons: dict[Node, Reason], min_nodes: int
) -> dict[Node, Reason]:
    for level, nodes in _by_level(levels).items():
        if level % 2 == 0 and len(nodes) < min_nodes:
            count = f"{len(nodes)} operator{'s' * (len(nodes) != 1)}"
            text = f"its part would have only {count}, and parts with fewer than {min_nodes} stay in PyTorch"
            return {node: Reason("FX404", text) for node in nodes if node not in reasons}
    return {}
