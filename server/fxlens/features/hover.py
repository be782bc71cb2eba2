"""What the graph has for the expression under the cursor, and the totals of a model at its name."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens import lines as places
from fxlens import rules
from fxlens import text as positions
from fxlens.drawing import value_text

from .diagnostics import to_range

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

_MANY = 6
_PATIENCE = 2.0
"""Seconds to wait for a trace that is under way."""


def register(server: FxLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: FxLensServer, params: types.HoverParams) -> types.Hover | None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ls.session.record(params.text_document.uri), _PATIENCE)
        document = ls.session.documents.get(params.text_document.uri)
        if document is None or document.record is None or document.record_text != document.text:
            return None
        at = params.position
        if at.line >= len(document.lines):
            return None
        line, column = at.line + 1, positions.column(document.lines[at.line], at.character, ls.encoding)
        target = places.class_at(document.record, line, column)
        if target is not None:
            text, span = describe_target(target), {**target, "file": document.path}
        else:
            found = places.at(document.record, document.path, line, column)
            if not found:
                return None
            owner = next(each for each in document.record["targets"] if each["name"] == found[0].target)
            nodes = {each["name"]: each for each in owner["nodes"]}
            text, span = describe(found, nodes), found[0].span
            text += lowering(ls.session.selected(document, owner.get("lowering", [])), span)
        shown = to_range(positions.lsp_range(span, document.lines, ls.encoding))
        return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=text), range=shown)


def describe(found: list[places.Place], nodes: dict[str, dict[str, Any]]) -> str:
    """Markdown of the nodes of one expression."""
    if not found[0].own:
        return _call([place.node for place in found])
    node = found[0].node
    kind = f" · {code(node['module_type'])}" if node["op"] == "call_module" and node["module_type"] else ""
    head = f"**{code(node['target'])}**{kind} · {node['op']} {code(node['name'])}"
    facts = []
    arguments = [value_text(nodes[name]) or name for name in node["inputs"] if name in nodes]
    flow = f"{', '.join(arguments)} → {value_text(node)}" if value_text(node) else ""
    if node["params"]:
        facts.append(f"{node['params']:,} parameters")
    if node["flops"] is not None:
        facts.append(places.amount(node["flops"], "FLOPs"))
    moved = places.traffic(node, nodes)
    if moved is not None:
        facts.append(f"{places.amount(moved, 'B')} moved")
    module = node["module_path"]
    if module and not (node["op"] == "call_module" and module == node["target"]):
        facts.append(f"in {code(module)}")
    users = [each["name"] for each in nodes.values() if node["name"] in each["inputs"]]
    if users:
        facts.append(f"used by {', '.join(code(name) for name in users[:_MANY])}{' …' if len(users) > _MANY else ''}")
    if len(found) > 1:
        facts.append(f"reached {len(found)} times")
    return _markdown(head, flow, facts)


def lowering(findings: list[dict[str, Any]], span: dict[str, Any]) -> str:
    """Markdown of what keeps this expression out of an engine: editors show no text for hints by themselves."""
    told = [each for each in findings if span == each["span"] or span in each["call_path"]]
    if not told:
        return ""
    page = rules.page(told[0]["code"])
    rule = f"[{told[0]['code']}]({page})" if page else told[0]["code"]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return f"\n\n---\n\n{rule}: {told[0]['message']}{more}"


def describe_target(target: dict[str, Any]) -> str:
    """Markdown of a whole model."""
    nodes = target["nodes"]
    state = {"traced": "torch.fx captures it", "partial": "torch.fx gives no graph; captured in part"}
    head = f"**{code(target['name'])}** · {state.get(target['status'], target['reason'] or target['status'])}"
    facts = [f"{len(nodes):,} nodes"] if nodes else []
    if count := places.parameters(nodes):
        facts.append(f"{count:,} parameters in the modules that it calls")
    total = places.flops(nodes)
    if total is not None:
        facts.append(places.amount(total, "FLOPs"))
    return _markdown(head, ", ".join(places.inputs(target)), facts)


def _call(nodes: list[dict[str, Any]]) -> str:
    """Markdown of a call that leads to several nodes: what it comes to."""
    names = ", ".join(code(node["name"]) for node in nodes[:_MANY])
    more = f" and {len(nodes) - _MANY} more" if len(nodes) > _MANY else ""
    count = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    facts = []
    if parameters := places.parameters(nodes):
        facts.append(f"{parameters:,} parameters")
    total = places.flops(nodes)
    if total is not None:
        facts.append(places.amount(total, "FLOPs"))
    value = value_text(nodes[-1])
    return _markdown(f"**{count}**: {names}{more}", f"→ {value}" if value else "", facts)


def _markdown(head: str, flow: str, facts: list[str]) -> str:
    parts = [head]
    if flow:
        parts.append(f"```text\n{flow}\n```")
    if facts:
        parts.append(" · ".join(facts))
    return "\n\n".join(parts)


def code(text: str) -> str:
    """The text as Markdown code, whatever it holds: names come from user code."""
    flat = " ".join(text.split())
    fence = "`" * (max((len(run) for run in _backticks(flat)), default=0) + 1)
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}"


def _backticks(text: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in text).split(" ") if run]
