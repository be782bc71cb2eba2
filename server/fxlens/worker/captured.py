"""Results of torch.export and torch.compile, as entries of the record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fxlens import record
from fxlens.record import Graph, Node, Span

from . import render

_ASSIGNED = re.compile(r"^\s*(\w+)(?: *:[^=]+)? = ")
_WEIGHT = re.compile(r"^l_self_(?:modules_)?(\w+?)_?$")


def verdict(value: Any) -> record.Verdict:
    """A verdict of ``fxlib.captures`` as data."""
    return {
        "capture": value.capture, "outcome": value.outcome, "text": value.text, "reason": value.reason,
        "breaks": value.breaks, "graphs": len(value.parts), "fullgraph": value.fullgraph,
        "graph": graph(value.parts) if value.parts else None,
    }  # fmt: skip


def graph(parts: list[Any]) -> Graph:
    """The graphs of a capture as one. If there are several, each is a module: ``graph 1``, ``graph 2``.

    Node names then start with the graph's number, since each graph numbers its nodes separately.
    """
    nodes: list[Node] = []
    modules: dict[str, str] = {}
    code: list[str] = []
    places: dict[str, list[int]] = {}
    for number, part in enumerate(parts, 1):
        region = f"graph {number}" if len(parts) > 1 else ""
        prefix = f"g{number}_" if region else ""
        own = [_node(each, prefix, region, part.weights) for each in part.graph.nodes]
        if region:
            modules[region] = f"to line {part.ended_by.line}" if part.ended_by else "to the end"
            count = f"{part.operators} operator{'' if part.operators == 1 else 's'}"
            code.append(f"# Graph {number}: {count}, {modules[region]}.")
        for each in own:
            if each["module_path"] and each["module_path"] != region:
                modules.setdefault(each["module_path"], each["module_type"])
        nodes += own
        names = {each["name"] for each in own}
        for line in part.code.splitlines():
            code.append(line)
            found = _ASSIGNED.match(line)
            name = f"{prefix}{found[1]}" if found else f"{prefix}output"
            if name in names and (found or line.lstrip().startswith("return")):
                places.setdefault(name, [len(code), len(code)])
        code.append("")
    return {"nodes": nodes, "modules": modules, "code": "\n".join(code), "code_lines": places}


def _node(node: Any, prefix: str, region: str, weights: Mapping[str, str]) -> Node:
    from fxlib.captures.places import frames_of, users_path

    stack: list[Span] = [record.span_of(each) for each in users_path(frames_of(node.meta.get("stack_trace") or ""))]
    op, target = str(node.op), _target(node)
    if op == "placeholder" and (held := _held(node, weights)) is not None:
        op, target = "get_attr", held
    path, kind = _module(node.meta.get("nn_module_stack"))
    value = node.meta.get("val", node.meta.get("example_value"))
    shape, dtype = render.tensor(value)
    arguments = [*map(repr, node.args), *(f"{name}={each!r}" for name, each in node.kwargs.items())]
    return {
        "name": f"{prefix}{node.name}", "op": op, "target": target,
        "args": render.short(", ".join(arguments)),
        "inputs": [f"{prefix}{each.name}" for each in node.all_input_nodes],
        "span": stack[-1] if stack and op != "placeholder" else None,
        "call_path": stack if op != "placeholder" else [],
        "module_path": ".".join(filter(None, [region, path])), "module_type": kind, "settings": "",
        "returned": {}, "shape": shape, "symbolic": None, "dtype": dtype, "structure": render.structure(value),
        "value": "" if value is None or shape is not None else render.short(repr(value)),
        "params": 0, "flops": None, "predicted": None,
    }  # fmt: skip


def _target(node: Any) -> str:
    if isinstance(node.target, str):
        return node.target
    text = str(node.target)
    return getattr(node.target, "__name__", text) if text.startswith("<") else text


def _held(node: Any, weights: Mapping[str, str]) -> str | None:
    """The parameter or buffer of a placeholder."""
    found = _WEIGHT.match(str(node.name))
    return weights.get(node.name) or (re.sub(r"_(parameters|buffers)_", ".", found[1]) if found else None)


def _module(stack: Any) -> tuple[str, str]:
    """Path and class of the innermost module in which a node was created."""
    entries: Iterable[Any] = (stack or {}).values()
    found = [each for each in entries if isinstance(each, tuple) and len(each) == 2]
    if not found:
        return "", ""
    path, kind = found[-1]
    path = re.sub(r"^L\['self'\]\.?|_modules", "", str(path))
    path = re.sub(r"\.?\[['\"]?(\w+)['\"]?\]", r".\1", path).strip(".")
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return (path, name.rpartition(".")[2]) if path else ("", "")
