"""Texts made of a target: the generated forward, and the table of its nodes.

Request ``fxlens/code`` ``{uri, target, view}`` with ``view`` one of ``VIEWS``; the answer is ``{text, lines, places,
version}``, where ``lines`` maps a node to its first and last line (from 0) of the text, or ``{reason}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fxlens.drawing import value_text

from .graph import places

if TYPE_CHECKING:
    from fxlens.server import FxLensServer

Text = tuple[str, dict[str, list[int]]]


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/code")
    async def code(ls: FxLensServer, params: Any) -> dict[str, Any]:
        uri, name, view = (str(getattr(params, each, "") or "") for each in ("uri", "target", "view"))
        record = await ls.session.record(uri)
        document = ls.session.documents.get(uri)
        if document is None or record is None:
            return {"reason": "FX Lens has no trace of this file."}
        target = next((each for each in record["targets"] if each["name"] == name), None)
        if target is None:
            return {"reason": f"This file has no model {name}."}
        if view not in VIEWS:
            return {"reason": f"There is no view {view!r}; there are {', '.join(VIEWS)}."}
        text, lines = VIEWS[view](target)
        if not text:
            return {"reason": f"{name} has no graph: {target['reason'] or 'its problems say why'}."}
        found = places(ls, document, target)
        return {"text": text, "lines": lines, "places": found, "version": document.record_version}


def forward(target: dict[str, Any]) -> Text:
    """The generated forward."""
    return target["code"], {name: [first - 1, last - 1] for name, (first, last) in target["code_lines"].items()}


def table(target: dict[str, Any]) -> Text:
    """One row a node, as ``Graph.print_tabular`` has it, with the values."""
    head = ("opcode", "name", "target", "args", "value")
    rows = [(each["op"], each["name"], each["target"], each["args"], value_text(each)) for each in target["nodes"]]
    if not rows:
        return "", {}
    widths = [min(max(len(row[column]) for row in [head, *rows]), 60) for column in range(len(head))]
    padded = [[_cell(text, width) for text, width in zip(row, widths, strict=True)] for row in [head, *rows]]
    lines = ["  ".join(row).rstrip() for row in padded]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n", {row[1]: [number, number] for number, row in enumerate(rows, 2)}


def _cell(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return (flat if len(flat) <= width else f"{flat[: width - 1]}…").ljust(width)


VIEWS: dict[str, Callable[[dict[str, Any]], Text]] = {"code": forward, "table": table}
