"""A model's graph for the page: its drawing, and the facts of each node. No LSP in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fxlens.answers import Direction, GraphView, NodeInfo
from fxlens.record import Node, Record, Target

from . import quantities
from .drawing import Drawing, draw, value_text
from .verdicts import capture_names

MOST = 5000
"""At most this many nodes of a graph are described, those with their own box first."""


@dataclass(frozen=True)
class Shown:
    """A node, the names of its users, why it stays in PyTorch when the model is lowered, and the bytes that it reads
    and writes."""

    node: Node
    users: list[str]
    lowering: str
    traffic: int | None

    @property
    def value(self) -> str:
        return value_text(self.node) or self.node["value"]

    @property
    def type(self) -> str:
        return self.node["module_type"] if self.node["op"] == "call_module" else ""


FACTS: Mapping[str, Callable[[Shown], str]] = {
    "node": lambda shown: shown.node["name"],
    "operation": lambda shown: shown.node["op"],
    "target": lambda shown: shown.node["target"],
    "type": lambda shown: shown.type,
    "settings": lambda shown: shown.node["settings"],
    "value": lambda shown: shown.value,
    "arguments": lambda shown: shown.node["args"],
    "module": lambda shown: shown.node["module_path"],
    "users": lambda shown: ", ".join(shown.users),
    "parameters": lambda shown: f"{shown.node['params']:,}" if shown.node["params"] else "",
    "FLOPs": lambda shown: f"{shown.node['flops']:,}" if shown.node["flops"] else "",
    "lowering": lambda shown: shown.lowering,
}
"""The facts that the page lists for a selected node, in this order; empty ones are left out."""


def graph_view(
    path: str, record: Record, target: Target, expanded: Sequence[str] | None, parameters: bool, direction: Direction
) -> GraphView:
    """The view; ``expanded`` names the modules that are open, None chooses them."""
    drawn = [each for each in record["targets"] if each["nodes"]]
    drawing = draw(target, expanded, parameters=parameters, direction=direction)
    return {
        "file": os.path.basename(path),
        "target": target["name"],
        "targets": [name for each in drawn for name in (each["name"], *capture_names(each))],
        "dot": drawing.dot,
        "expanded": drawing.expanded,
        "elements": drawing.elements,
        "groups": drawing.groups,
        "nodes": _nodes(target, drawing),
        "parameters": parameters,
        "direction": direction,
        "partial": " ".join(filter(None, [_partial(target), _too_large(target, drawing)])) or None,
    }


def _too_large(target: Target, drawing: Drawing) -> str:
    """A note on what is left out of a very large graph."""
    count = len(target["nodes"])
    said = [
        "its modules are collapsed, because that is too many to draw" if drawing.collapsed else "",
        f"only {MOST:,} of them have details" if count > MOST else "",
    ]
    return f"This graph has {count:,} nodes: {', and '.join(filter(None, said))}." if any(said) else ""


def _nodes(target: Target, drawing: Drawing) -> list[NodeInfo]:
    users: dict[str, list[str]] = {node["name"]: [] for node in target["nodes"]}
    for node in target["nodes"]:
        for name in dict.fromkeys(node["inputs"]):
            users[name].append(node["name"])
    stays = {each["node"]: each["message"] for each in target["lowering"]}
    described = list(target["nodes"])
    if len(described) > MOST:
        own = {names[0] for names in drawing.elements.values() if len(names) == 1}
        first = sorted(described, key=lambda node: node["name"] not in own)[:MOST]
        kept = {node["name"] for node in first}
        described = [node for node in described if node["name"] in kept]
    by_name = {node["name"]: node for node in target["nodes"]}
    return [
        _node(Shown(node, users[node["name"]], stays.get(node["name"], ""), quantities.traffic(node, by_name)))
        for node in described
    ]


def _node(shown: Shown) -> NodeInfo:
    node = shown.node
    return {
        "name": node["name"],
        "op": node["op"],
        "target": node["target"],
        "args": node["args"],
        "inputs": node["inputs"],
        "users": shown.users,
        "module": node["module_path"],
        "type": shown.type,
        "value": shown.value,
        "params": node["params"],
        "flops": node["flops"],
        "bytes": shown.traffic if node["op"].startswith("call") else None,
        "seconds": node["predicted"] and node["predicted"]["seconds"],
        "lowering": shown.lowering or None,
        "facts": [[name, text] for name, fact in FACTS.items() if (text := fact(shown))],
    }


def _partial(target: Target) -> str | None:
    if target["status"] == "traced":
        return None
    loud = [each for each in target["findings"] if each["severity"] == "error"]
    if not loud:
        return target["reason"]
    more = f" (and {len(loud) - 1} more problems)" if len(loud) > 1 else ""
    return f"torch.fx cannot capture this model, so this graph is incomplete. {loud[0]['message']}{more}"
