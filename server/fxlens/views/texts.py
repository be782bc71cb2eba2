"""Texts made from a target: its generated forward, the table of its nodes, its graph as text. No LSP in it.

Each view has an address, so that requests for a line of a view can be answered like those for a line of the source.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from fxlens.record import Node, Target
from fxlens.sources.notebook import is_notebook

from .drawing import value_text

SCHEME = "fxlens"
_NAME = re.compile(r"\w+")
_WIDTH = 60


class Text(NamedTuple):
    """A text, and for each node its first and last line (from 0)."""

    text: str
    lines: Mapping[str, list[int]]


@dataclass(frozen=True)
class Subject:
    """The subject of a view: a target of a document, in one of ``VIEWS``."""

    source: str
    target: str
    view: str

    def file_name(self) -> str:
        return f"{self.target}.{VIEWS[self.view].suffix}"

    def address(self) -> str:
        """``fxlens:/Net.forward.py?["file:///net.py","Net","code"]``, percent-encoded."""
        query = json.dumps([self.source, self.target, self.view], separators=(",", ":"), ensure_ascii=False)
        return f"{SCHEME}:/{quote(self.file_name())}?{quote(query, safe='')}"


def subject_of(address: str) -> Subject | None:
    """The subject of the view at an address; None if it is not the address of a view."""
    try:
        parts = urlsplit(address)
        if parts.scheme != SCHEME:
            return None
        values = json.loads(unquote(parts.query))
    except ValueError:  # also for invalid addresses
        return None
    if not isinstance(values, list) or len(values) != 3 or not all(isinstance(each, str) for each in values):
        return None
    subject = Subject(*values)
    return subject if subject.view in VIEWS else None


def text_of(target: Target, view: str) -> Text:
    """The text of a view of a target; empty if the target has no graph."""
    return VIEWS[view].make(target)


def node_at(target: Target, view: str, line: int, character: int) -> Node | None:
    """The node at a position in a view (from 0): the one whose name is there, otherwise that of the line."""
    text, lines = text_of(target, view)
    nodes = {node["name"]: node for node in target["nodes"]}
    content = text.split("\n")
    if line >= len(content):
        return None
    for match in _NAME.finditer(content[line]):
        if match.start() <= character <= match.end() and match[0] in nodes:
            return nodes[match[0]]
    on_line = [name for name, (first, last) in lines.items() if first <= line <= last and name in nodes]
    return nodes[on_line[0]] if len(on_line) == 1 else None


def forward(target: Target) -> Text:
    """The generated forward."""
    return Text(target["code"], {name: [first - 1, last - 1] for name, (first, last) in target["code_lines"].items()})


def table(target: Target) -> Text:
    """One row per node, as in ``Graph.print_tabular``, with the values."""
    head = ("opcode", "name", "target", "args", "value")
    rows = [(each["op"], each["name"], each["target"], each["args"], value_text(each)) for each in target["nodes"]]
    if not rows:
        return Text("", {})
    widths = [min(max(len(row[column]) for row in [head, *rows]), _WIDTH) for column in range(len(head))]
    padded = [[_cell(text, width) for text, width in zip(row, widths, strict=True)] for row in [head, *rows]]
    lines = ["  ".join(row).rstrip() for row in padded]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return Text("\n".join(lines) + "\n", {row[1]: [number, number] for number, row in enumerate(rows, 2)})


def listing(target: Target) -> Text:
    """The graph as text: one line per node, with its type, module and source line."""
    nodes = target["nodes"]
    if not nodes:
        return Text("", {})
    inputs = [_typed(node, node["target"]) for node in nodes if node["op"] == "placeholder"]
    lines, where = [f"graph {target['name']}({', '.join(inputs)}):"], {}
    for node in nodes:
        if node["op"] == "placeholder":
            where[node["name"]] = [0, 0]
            continue
        where[node["name"]] = [len(lines), len(lines)]
        lines.append(f"    {_statement(node):<{_WIDTH}}{_origin(node)}".rstrip())
    return Text("\n".join(lines) + "\n", where)


def _statement(node: Node) -> str:
    if node["op"] == "output":
        return f"return {node['args']}"
    called = f"[{node['target']}]" if node["op"] == "get_attr" else f"[{node['target']}]({_flat(node['args'])})"
    return f"{_typed(node, node['name'])} = {node['op']}{called}"


def _typed(node: Node, name: str) -> str:
    value = value_text(node)
    return f"{name}: {value}" if value else name


def _origin(node: Node) -> str:
    module = f"{node['module_path']}: {node['module_type']}" if node["module_path"] else ""
    span = node["span"]
    # In a notebook, readers know only the lines of cells.
    place = f"{os.path.basename(span['file'])}:{span['line']}" if span and not is_notebook(span["file"]) else ""
    origin = ", ".join(part for part in (module, place) if part)
    return f"  # {origin}" if origin else ""


def _cell(text: str, width: int) -> str:
    flat = _flat(text)
    return (flat if len(flat) <= width else f"{flat[: width - 1]}…").ljust(width)


def _flat(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class View:
    """How a view is made, and its file extension, by which an editor chooses colours."""

    make: Callable[[Target], Text]
    suffix: str


VIEWS = {"code": View(forward, "forward.py"), "table": View(table, "nodes.txt"), "graph": View(listing, "graph.txt")}
