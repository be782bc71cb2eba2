"""Text about graphs for logs and errors."""

from __future__ import annotations

from typing import Any

from torch._logging import LazyString

from .graph import Graph
from .graph_module import GraphModule
from .node import Node


def lazy_format_graph_code(name: str, gm: GraphModule, maybe_id: int | None = None, **kwargs: Any) -> LazyString:
    """The readable code of ``gm`` under a heading, made only when it is printed."""

    def text() -> str:
        heading = name if maybe_id is None else f"{name} {maybe_id}"
        filename = getattr(gm.forward, "__code__", None)
        where = filename.co_filename if filename is not None else ""
        return _format_graph_code(f"===== {heading} =====\n", where, gm.print_readable(print_output=False, **kwargs))

    return LazyString(text)


def _format_graph_code(name: str, filename: str, graph_str: str) -> str:
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph: Graph) -> dict[str, Any] | None:
    """The ``nn_module_stack`` of the first call of a function that has one."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return node.meta["nn_module_stack"]
    return None


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """The node and those before it, ``num_nodes`` in all, a line each, for error messages."""
    lines = [node.format_node() or ""]
    before = node
    while len(lines) < num_nodes:
        before = before.prev
        if before.op == "root":
            break
        lines.append(before.format_node() or "")
    return "\n".join(lines[::-1])
