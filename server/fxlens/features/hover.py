"""What the graph has for the expression under the cursor, and the totals of a model at its name."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from fxlens import rules
from fxlens.sources import positions
from fxlens.sources.paths import key
from fxlens.views import source_nodes, texts
from fxlens.views.drawing import value_text

from .diagnostics import to_range

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document

_MANY = 6
_PATIENCE = 1.0
"""Seconds to wait for a trace where nothing is known yet of a line that may be a model's."""
_MOMENT = 0.05
"""Seconds to wait where the last trace can answer too, or where no trace will have an answer."""
_CLASS = re.compile(r"^[ \t]*class\s+\w+\s*\(", re.MULTILINE)

Told = tuple[str, dict[str, Any]]
"""Markdown, and the span that it is about."""


def register(server: FxLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: FxLensServer, params: types.HoverParams) -> types.Hover | None:
        at = params.position
        if (subject := ls.views.subject(params.text_document.uri)) is not None:
            return _markup(in_view(ls, subject, at.line, at.character), None)
        document = ls.session.documents.get(params.text_document.uri)
        if document is None:
            return None
        # While one types, the trace before the last edit can speak of every line that was not touched.
        waited = ls.session.record(document.uri)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(waited, _PATIENCE if _may_tell(document, at.line) else _MOMENT)
        if at.line >= len(document.lines):
            return None
        column = positions.column(document.lines[at.line], at.character, ls.encoding)
        told = _own(ls, document, at.line, column) or _of_readers(ls, document, at.line + 1, column)
        if told is None:
            return None
        text, span = told
        return _markup(text, to_range(positions.lsp_range(span, document.lines, ls.encoding)))


def _may_tell(document: Document, line: int) -> bool:
    """Whether a trace on its way may tell of a line (from 0) what the last one could not."""
    return unmoved(document, line) is None and _CLASS.search(document.text) is not None


def unmoved(document: Document, line: int) -> int | None:
    """The line (from 1) of the record's text that this line (from 0) was; None where it is new or nothing is known."""
    if document.record is None:
        return None
    if document.record_text == document.text:
        return line + 1
    old = positions.lines_of(document.record_text)
    return positions.moved_lines(document.lines, old).get(line + 1)


def in_view(ls: FxLensServer, subject: texts.Subject, line: int, character: int) -> str | None:
    """Markdown of the node at a position of a view."""
    target = ls.views.target(subject)
    node = texts.node_at(target, subject.view, line, character) if target else None
    if target is None or node is None:
        return None
    return describe(
        [source_nodes.Place(node["span"] or {}, node, True, target["name"])],
        {each["name"]: each for each in target["nodes"]},
    )


def _own(ls: FxLensServer, document: Document, line: int, column: int) -> Told | None:
    """What the document's own record has to say of a position; the span is in the present text."""
    was = unmoved(document, line)
    if was is None or document.record is None:
        return None
    target = source_nodes.class_at(document.record, was, column)
    if target is not None:
        text, span = describe_target(target), {**target, "file": document.path}
    else:
        found = source_nodes.at(document.record, document.path, was, column)
        if not found:
            return None
        owner, nodes = _nodes(document.record, found)
        text, span = describe(found, nodes), found[0].span
        text += lowering(ls.session.selected(document, owner.get("lowering", [])), span)
    moved = line + 1 - was
    return text, {**span, "line": span["line"] + moved, "end_line": span["end_line"] + moved}


def _of_readers(ls: FxLensServer, document: Document, line: int, column: int) -> Told | None:
    """What the models of other documents make of a position here, and which of their calls led to it."""
    for reader in reversed(ls.session.readers(document)):
        assert reader.record is not None
        found = source_nodes.at(reader.record, document.path, line, column)
        if found:
            _, nodes = _nodes(reader.record, found)
            return f"{describe(found, nodes)}\n\n---\n\n{origin(reader, found)}", found[0].span
    return None


def origin(reader: Document, found: list[source_nodes.Place]) -> str:
    """Markdown of the calls in another document that lead to these nodes."""
    calls: dict[tuple[int, int], dict[str, Any]] = {}
    for place in found:
        for span in place.node["call_path"] or ():
            if key(span["file"]) == key(reader.path):
                calls.setdefault((span["line"], span["column"]), span)
    file = os.path.basename(reader.path)
    head = f"Called by {code(found[0].target)} of {code(file)}"
    lines = positions.lines_of(reader.record_text)
    told = [f"line {span['line']} {code(_line(lines, span))}" for span in calls.values()]
    return f"{head}: {source_nodes.several(told)}" if told else head


def _line(lines: list[str], span: dict[str, Any]) -> str:
    if span["line"] > len(lines):
        return ""
    text = lines[span["line"] - 1].encode("utf-8", "surrogatepass")
    last = span["end_column"] if span["end_line"] == span["line"] else len(text)
    return text[span["column"] : last].decode("utf-8", "replace")


def _nodes(record: dict[str, Any], found: list[source_nodes.Place]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    owner = next(each for each in record["targets"] if each["name"] == found[0].target)
    return owner, {each["name"]: each for each in owner["nodes"]}


def _markup(text: str | None, place: types.Range | None) -> types.Hover | None:
    if text is None:
        return None
    return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=text), range=place)


def describe(found: list[source_nodes.Place], nodes: dict[str, dict[str, Any]]) -> str:
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
        facts.append(source_nodes.amount(node["flops"], "FLOPs"))
    moved = source_nodes.traffic(node, nodes)
    if moved is not None:
        facts.append(f"{source_nodes.amount(moved, 'B')} moved")
    if time := source_nodes.predicted([node]):
        facts.append(time)
    modules = dict.fromkeys(
        each.node["module_path"] for each in found if each.node["op"] != "call_module" or len(found) > 1
    )
    if any(modules):
        facts.append(f"in {source_nodes.several([code(module) for module in modules if module])}")
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
    if count := source_nodes.parameters(nodes):
        facts.append(f"{count:,} parameters in the modules that it calls")
    total = source_nodes.flops(nodes)
    if total is not None:
        facts.append(source_nodes.amount(total, "FLOPs"))
    if time := source_nodes.predicted(nodes):
        facts.append(time)
    return _markdown(head, ", ".join(source_nodes.inputs(target)), facts)


def _call(nodes: list[dict[str, Any]]) -> str:
    """Markdown of a call that leads to several nodes: what it comes to."""
    names = ", ".join(code(node["name"]) for node in nodes[:_MANY])
    more = f" and {len(nodes) - _MANY} more" if len(nodes) > _MANY else ""
    count = f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    facts = []
    if parameters := source_nodes.parameters(nodes):
        facts.append(f"{parameters:,} parameters")
    total = source_nodes.flops(nodes)
    if total is not None:
        facts.append(source_nodes.amount(total, "FLOPs"))
    if time := source_nodes.predicted(nodes):
        facts.append(time)
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
