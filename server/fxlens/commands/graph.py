"""``fxlens graph FILE[::Class]``: the graph as a table, as DOT or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from fxlens.record import Node
from fxlens.sources.notebook import Notebook

from . import one_target

_COLUMNS = ("op", "name", "target", "args", "shape", "line")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    one_target.add_arguments(parser)
    parser.add_argument(
        "--format", choices=("table", "dot", "json"), default="table", help="output format (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    found = one_target.trace(arguments)
    if isinstance(found, int):
        return found
    target, notebook = found
    if arguments.format == "json":
        said = {name: target[name] for name in ("name", "status", "reason", "nodes", "modules")}
        if notebook is not None:
            said["nodes"] = notebook.placed(target["nodes"])
        json.dump(said, sys.stdout, indent=2)
        print()
    elif arguments.format == "dot":
        from fxlens.views import drawing

        print(drawing.draw(target).dot)
    else:
        print(table(target["nodes"], notebook))
    return 0 if target["status"] == "traced" else 1


def table(nodes: Sequence[Node], notebook: Notebook | None = None) -> str:
    """The nodes in columns, each column as wide as its widest entry, the arguments cut at 60 characters."""
    rows = [_COLUMNS, *(_row(node, notebook) for node in nodes)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _row(node: Node, notebook: Notebook | None) -> tuple[str, ...]:
    shape = "" if node["shape"] is None else f"{node['dtype']}[{', '.join(map(str, node['shape']))}]"
    arguments = node["args"] if len(node["args"]) <= 60 else node["args"][:59] + "…"
    line = str(node["span"]["line"]) if node["span"] else ""
    if notebook is not None and node["span"] is not None:
        cell, number = notebook.place(node["span"]["line"])
        line = f"cell {cell}:{number}"
    return (node["op"], node["name"], node["target"], arguments, shape or node["value"][:30], line)
