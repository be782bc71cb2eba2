"""Markdown for hovers: nodes, models and findings."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from typing import Protocol

from fxlens import rules
from fxlens.record import Finding, Node, Origin, Span, Target, Verdict, tensor_text
from fxlens.sources.files import ERRORS
from fxlens.sources.members import Member

from . import modules, operators, quantities
from .drawing import value_text
from .source_nodes import Occurrence, inputs, several
from .verdicts import NAMES, outcome, told

_MANY = 6
_ROLES = {
    "meant": "Meant to be captured", "root": "A root model", "other": "Nothing shows that it is meant to be captured",
    "aside": "Does not look like a model",
}  # fmt: skip


class Value(Protocol):
    """What a name holds (`jobs.names.Value`)."""

    @property
    def text(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def paths(self) -> Sequence[str]: ...


def describe(found: Sequence[Occurrence], model: Target, text: str = "") -> str:
    """Markdown of the nodes of one expression, written as ``text`` in the source."""
    if not found[0].own:
        return _call(found, model, text)
    nodes = {each["name"]: each for each in model["nodes"]}
    node = found[0].node
    layer = f"{node['module_type']}({node['settings']})" if node["settings"] else node["module_type"]
    kind = f" · {code(layer)}" if node["op"] == "call_module" and layer else ""
    head = f"**{code(node['target'])}**{kind} · {node['op']} {code(node['name'])}"
    if node["target"] == operators.HOLE:
        head = f"**{code(text or node['name'])}** · cannot be recorded; what follows is traced with its value"
    facts = []
    arguments = [value_text(nodes[name]) or name for name in node["inputs"] if name in nodes]
    flow = f"{', '.join(arguments)} → {value_text(node)}".lstrip() if value_text(node) else ""
    if node["params"]:
        facts.append(f"{node['params']:,} parameters")
    if node["flops"] is not None:
        facts.append(quantities.amount(node["flops"], "FLOPs"))
    moved = quantities.traffic(node, nodes)
    if moved is not None:
        facts.append(f"{quantities.amount(moved, 'B')} read and written")
    if time := quantities.predicted([node]):
        facts.append(time)
    paths = dict.fromkeys(
        each.node["module_path"] for each in found if each.node["op"] != "call_module" or len(found) > 1
    )
    if any(paths):
        facts.append(f"in {several([code(path) for path in paths if path])}")
    users = [each["name"] for each in nodes.values() if node["name"] in each["inputs"]]
    if users:
        facts.append(f"used by {', '.join(code(name) for name in users[:_MANY])}{' …' if len(users) > _MANY else ''}")
    if len(found) > 1:
        facts.append(f"executed {len(found)} times")
    return _markdown(head, flow, facts)


def describe_name(name: str, values: Sequence[Value], model: Target) -> str:
    """Markdown of what a name holds, of which there are several values where its line is reached more than once."""
    nodes = {each["name"]: each for each in model["nodes"]}
    texts: dict[str, list[str]] = {}
    for each in (each for each in values if each.text):
        node = nodes.get(each.node)
        same = node is not None and node["shape"] is not None and tensor_text(node["shape"], node["dtype"]) == each.text
        paths = texts.setdefault(value_text(node) if node is not None and same else each.text, [])
        paths += [path or model["name"] for path in each.paths]
    recorded = [each.node for each in values if each.node in nodes and nodes[each.node]["target"] != operators.HOLE]
    computed = [code(each) for each in recorded]
    facts = [f"computed by {several(list(dict.fromkeys(computed)))}"] if computed else []
    if not texts:
        lacks = "" if model["inputs"] else f": {code(model['name'])} has no example inputs"
        return _markdown(f"**{code(name)}** · its value is not known{lacks}", "", facts)
    constant = not any(each.node for each in values) and all(_is_constant(text) for text in texts)
    if constant:
        facts = [f"computed while tracing: the graph keeps {'this value' if len(texts) == 1 else 'these values'}"]
    if len(texts) == 1 or constant:
        shown = ", ".join([*texts][:_MANY]) + (", …" if len(texts) > _MANY else "")
        return _markdown(f"**{code(name)}** · {code(shown)}", "", facts)
    lines = [f"{several(list(dict.fromkeys(paths)))}: {text}" for text, paths in texts.items()]
    if len({tuple(paths) for paths in texts.values()}) == 1:  # a loop in one module
        lines = [*texts]
    more = [f"and {len(lines) - _MANY} more"] if len(lines) > _MANY else []
    return _markdown(f"**{code(name)}**", "\n".join([*lines[:_MANY], *more]), facts)


def _is_constant(text: str) -> bool:
    """Whether a value is data that generated code holds as it is."""
    try:
        return ast.literal_eval(text) is not None
    except ERRORS:
        return False


def lowering(findings: Sequence[Finding], span: Span) -> str:
    """Markdown of why a node stays in PyTorch: editors show no text for hints by themselves."""
    found = [each for each in findings if span == each["span"] or span in each["call_path"]]
    if not found:
        return ""
    page = rules.page(found[0]["code"])
    rule = f"[{found[0]['code']}]({page})" if page else found[0]["code"]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"\n\n---\n\n{rule}: {found[0]['message']}{more}"


def describe_target(target: Target) -> str:
    """Markdown of a whole model."""
    nodes = target["nodes"]
    state = {"traced": "torch.fx captures it", "partial": "torch.fx cannot capture it; the graph is incomplete"}
    head = f"**{code(target['name'])}** · {state.get(target['status'], target['reason'] or target['status'])}"
    facts = [f"{len(nodes):,} nodes", *_totals(nodes, "parameters in the modules that it calls")] if nodes else []
    known = [f"{word} {code(origin['text'])} ({where(origin)})" for word, origin in _origins(target)]
    part = [said] if (said := role(target)) else []
    text = "\n\n".join([_markdown(head, ", ".join(inputs(target)), facts), *known, *part])
    return text + _captures(target)


def role(target: Target) -> str:
    """Whether the class is meant to be captured, and why, in a few words; empty if unknown."""
    return f"{_ROLES[target['role']]}: {target['why']}" if target["role"] else ""


def _origins(target: Target) -> list[tuple[str, Origin]]:
    pairs = (("Constructed as", target["construct"]), ("Called with", target["inputs"]))
    return [(word, origin) for word, origin in pairs if origin is not None]


def where(origin: Origin) -> str:
    """The source of a construction or inputs: ``comment``, ``line 30``, ``test_net.py:12``, ``assumed``."""
    if origin["file"]:
        name = os.path.basename(origin["file"])
        return f"{name}:{origin['line']}" if origin["line"] else name
    if origin["source"] in ("instance", "call") and origin["line"]:
        return f"line {origin['line']}"
    said = {"config": "configuration", "default": "no arguments needed", "parent": "part of a model"}
    return said.get(origin["source"], origin["source"])


def _captures(target: Target) -> str:
    """Markdown of the other captures' verdicts on a model: a row for each."""
    names = {**NAMES, "strict": "torch.export, `strict=True`", "shapes": "torch.export, other sizes"}
    rows = [f"| {names[each['capture']]} | {verdict_text(each)} |" for each in told(target)]
    return "\n\n| capture | |\n|---|---|\n" + "\n".join(rows) if rows else ""


def verdict_text(verdict: Verdict) -> str:
    """The verdict of one capture, as a sentence."""
    if verdict["outcome"] == "parts":
        count = verdict["graphs"]
        return f"{outcome(verdict)}: {count} {'graph' if count == 1 else 'graphs'}"
    if verdict["outcome"] == "captured":
        sizes = verdict["capture"] == "shapes"
        return "captured with every size that can vary as a symbol" if sizes else "captured in one graph"
    return verdict["reason"] or "not known"


def _call(found: Sequence[Occurrence], model: Target, text: str) -> str:
    """Markdown of a call that leads to several nodes: the modules that it runs, their operators, and their totals."""
    visits = modules.visits(found)
    paths = [modules.called_by(visit, model["nodes"], text) for visit in visits]
    part = [node for visit in visits for node in visit]
    names = list(dict.fromkeys(filter(None, paths)))
    kinds = {model["modules"].get(name, "") for name in names}
    head = f"**{code(kinds.pop())}** · " if len(kinds) == 1 and all(kinds) else ""
    head += f"{several([code(name) for name in names])} · " if names else ""
    head += f"{len(part)} {'node' if len(part) == 1 else 'nodes'}"
    facts = [modules.contents(visits[0]), *_totals(part, "parameters")]
    if len(visits) > 1:
        facts.append(f"executed {len(visits)} times")
    return _markdown(head, modules.flows(list(zip(paths, visits, strict=True)), model["nodes"]), facts)


def describe_member(member: Member, found: modules.Instances, uses: Sequence[str]) -> str | None:
    """Markdown of a submodule at the place where its class creates it; None if the model never runs it.

    ``uses`` are the lines that call it, as Markdown.
    """
    nodes = found.target["nodes"]
    paths = [f"{path}.{member.path}".lstrip(".") for path in found.paths]
    parts = [(path, part) for path in paths if (part := modules.within(nodes, path))]
    every = [node for _, part in parts for node in part]
    if not every:
        return None
    path, first = parts[0]
    kind = found.target["modules"].get(path) or next(each["module_type"] for each in first)
    settings = first[0]["settings"] if first[0]["target"] == path else ""
    head = f"**{code(member.path)}** · {code(f'{kind}({settings})' if settings else kind)}"
    times = f" ×{len(parts)}" if len(parts) > 1 else ""
    head += f" · in {code(found.target['name'])}{times}"
    facts = [modules.contents(first)] if len(first) > 1 else []
    facts += _totals(every, "parameters")
    text = _markdown(head, modules.flows(parts, nodes), facts)
    return f"{text}\n\nUsed in {several(list(uses))}" if uses else text


def _totals(nodes: Sequence[Node], parameters: str) -> list[str]:
    facts = []
    if count := quantities.parameters(nodes):
        facts.append(f"{count:,} {parameters}")
    total = quantities.flops(nodes)
    if total is not None:
        facts.append(quantities.amount(total, "FLOPs"))
    if time := quantities.predicted(nodes):
        facts.append(time)
    return facts


def _markdown(head: str, flow: str, facts: list[str]) -> str:
    parts = [head]
    if flow:
        parts.append(f"```text\n{flow}\n```")
    if facts:
        parts.append(" · ".join(facts))
    return "\n\n".join(parts)


def code(text: str) -> str:
    """The text as Markdown code, with any characters, since names come from user code."""
    flat = " ".join(text.split())
    fence = "`" * (max((len(run) for run in _backticks(flat)), default=0) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}"


def _backticks(text: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in text).split(" ") if run]
