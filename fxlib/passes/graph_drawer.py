"""Graphs as pictures: DOT by the ``graphviz`` package, SVG or PNG where Graphviz's ``dot`` is installed.

`FxGraphDrawer` draws one GraphModule, modules as clusters; large ones are collapsed to their outer modules.
`draw_change` draws a graph before and after a pass side by side.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import graphviz
import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.traced import check_traced
from fxlib.ir.node import Node, map_arg

__all__ = ["DotGraph", "FxGraphDrawer", "draw_change"]

COLOURS = {
    "placeholder": "AliceBlue",
    "get_attr": "LightGrey",
    "call_module": "LemonChiffon1",
    "call_function": "CadetBlue1",
    "call_method": "DarkSeaGreen1",
    "output": "PowderBlue",
}
HAS_PYDOT = True
"""Whether graphs can be drawn, under the name that programs read; pydot is not needed."""
_EDGES_PER_BOX = 3
"""Graphviz takes minutes for larger graphs, such as a DenseNet, where every layer reads all earlier ones."""
FAILED, ADDED, REMOVED = "#ff8a80", "#b9f6ca", "#ffccbc"


class DotGraph(graphviz.Digraph):
    """A ``graphviz.Digraph`` that also has the writing methods of ``pydot.Dot``."""

    def to_string(self) -> str:
        return self.source

    def create(self, format: str = "svg") -> bytes:
        """The picture as bytes. Raises ``graphviz.ExecutableNotFound`` where ``dot`` is not installed."""
        return self.pipe(format=format)

    def create_svg(self) -> bytes:
        return self.create("svg")

    def create_png(self) -> bytes:
        return self.create("png")

    def write_raw(self, path: str) -> bool:
        Path(path).write_text(self.source, encoding="utf-8")
        return True

    write_dot = write_raw

    def write_svg(self, path: str) -> bool:
        Path(path).write_bytes(self.create("svg"))
        return True

    def write_png(self, path: str) -> bool:
        Path(path).write_bytes(self.create("png"))
        return True


class FxGraphDrawer:
    """Draws a GraphModule.

    Args:
        graph_module, name: what to draw, and the graph's name.
        ignore_getattr: leave out ``get_attr`` nodes.
        ignore_parameters_and_buffers: leave a module's parameters out of its box.
        skip_node_names_in_args: print only arguments that are not nodes (edges show those).
        parse_stack_trace: print the source line of each node.
        dot_graph_shape: ``"record"`` (default) or any Graphviz shape.
        normalize_args: print arguments by name where the operator's signature is known.
        clusters: draw a frame around the nodes of each module.
        collapse_above: with more nodes than this, or three times as many edges, each outer module is one box.
        failed: a node, or its name, to mark as failed, with ``reason`` in its box.

    Example::

        FxGraphDrawer(graph_module, "resnet").get_dot_graph().write_svg("resnet.svg")
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
        clusters: bool = True,
        collapse_above: int = 300,
        failed: Node | str | None = None,
        reason: str = "",
    ) -> None:
        check_traced(graph_module, "FxGraphDrawer()")
        self._name = name
        self.graph_module = graph_module
        self.ignore_getattr = ignore_getattr
        self.ignore_parameters_and_buffers = ignore_parameters_and_buffers
        self.skip_node_names_in_args = skip_node_names_in_args
        self.parse_stack_trace = parse_stack_trace
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self.clusters = clusters
        self.collapse_above = collapse_above
        self.failed = failed.name if isinstance(failed, Node) else failed
        self.reason = reason
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for node in graph_module.graph.find_nodes(op="call_module"):
            leaf: Any = graph_module.get_submodule(str(node.target))
            if isinstance(leaf, GraphModule):
                title = f"{name}_{node.target}"
                self._dot_graphs[title] = self._draw(leaf, title)

    def get_dot_graph(self, submod_name: str | None = None) -> DotGraph:
        """The picture, or that of one submodule that is a GraphModule itself."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> DotGraph:
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> DotGraph:
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, DotGraph]:
        return self._dot_graphs

    def _draw(self, module: GraphModule, name: str) -> DotGraph:
        dot = _new_graph(name)
        nodes = [n for n in module.graph.nodes if not (self.ignore_getattr and n.op == "get_attr")]
        edges = _edges(nodes)
        if len(nodes) > self.collapse_above or len(edges) > _EDGES_PER_BOX * self.collapse_above:
            _draw_collapsed(dot, nodes, self.collapse_above)
            return dot
        paths = {n: _module_path(n) if self.clusters else () for n in nodes}
        _draw_clusters(dot, nodes, paths, lambda n: self._box(module, n))
        for source, node in edges:
            if source in paths:
                dot.edge(source.name, node.name)
        return dot

    def _box(self, module: GraphModule, node: Node) -> dict[str, str]:
        rows = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            leaf: Any = module.get_submodule(str(node.target))
            rows.append(f"{_type_name(leaf)} {node.target}")
            rows += [f"{k}: {getattr(leaf, k)}" for k in getattr(leaf, "__constants__", [])]
            if not self.ignore_parameters_and_buffers:
                own = itertools.chain(leaf.named_parameters(recurse=False), leaf.named_buffers(recurse=False))
                rows += [f"{k}: {_tensor(tensor)}" for k, tensor in own]
        elif node.op != "output":
            rows.append(f"target={node._pretty_print_target(node.target)}")
        arguments = self._arguments(module, node)
        if arguments:
            rows.append(arguments)
        rows.append(f"num_users={len(node.users)}")
        meta: Any = node.meta.get("tensor_meta")
        if hasattr(meta, "shape"):
            rows.append(f"{str(meta.dtype).removeprefix('torch.')} {list(meta.shape)}")
        if self.parse_stack_trace and node.span is not None:
            rows.append(f"{Path(node.span.file).name}:{node.span.line}")
        failed = node.name == self.failed
        if failed and self.reason:
            rows.append(self.reason)
        text = "\\l".join(_escaped(row) for row in rows) + "\\l"
        label = f"{{{text}}}" if self.dot_graph_shape == "record" else text
        return {
            "label": label,
            "shape": self.dot_graph_shape,
            "style": "filled,rounded",
            "fillcolor": FAILED if failed else COLOURS[node.op],
            "fontcolor": "#000000",
        }

    def _arguments(self, module: GraphModule, node: Node) -> str:
        args, kwargs = node.args, node.kwargs
        if self.normalize_args:
            found = node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
            if found is not None:
                args, kwargs = found
        if self.skip_node_names_in_args:
            args = tuple(a for a in args if not isinstance(a, Node))
            kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, Node)}
        shown = [str(map_arg(a, lambda n: f"%{n.name}")) for a in args]
        shown += [f"{k}={map_arg(v, lambda n: f'%{n.name}')}" for k, v in kwargs.items()]
        return f"({', '.join(shown)})" if shown and node.op != "output" else ""


def draw_change(before: GraphModule, after: GraphModule, name: str = "change") -> DotGraph:
    """Both graphs in one picture; nodes that only one has (by name and target) are coloured."""
    for each in (before, after):
        check_traced(each, "draw_change()")
    dot = _new_graph(name)
    present = [{(n.name, str(n.target)) for n in m.graph.nodes} for m in (before, after)]
    for index, (title, module, colour) in enumerate((("before", before, REMOVED), ("after", after, ADDED))):
        with dot.subgraph(name=f"cluster_{title}") as part:
            part.attr(label=title, style="rounded")
            for node in module.graph.nodes:
                changed = (node.name, str(node.target)) not in present[1 - index]
                label = f"{node.name}\\l{_escaped(node._pretty_print_target(node.target))}\\l"
                fill = colour if changed else COLOURS[node.op]
                part.node(f"{title}_{node.name}", label=label, shape="box", style="filled,rounded", fillcolor=fill)
            for source, node in _edges(module.graph.nodes):
                part.edge(f"{title}_{source.name}", f"{title}_{node.name}")
    return dot


def _edges(nodes: Iterable[Node]) -> list[tuple[Node, Node]]:
    """Pairs of a value and a node that uses it."""
    return [(source, node) for node in nodes for source in node.all_input_nodes]


def _new_graph(name: str) -> DotGraph:
    return DotGraph(
        name,
        graph_attr={"rankdir": "TB", "fontname": "Helvetica"},
        node_attr={"fontname": "Helvetica", "fontsize": "10"},
    )


def _module_path(node: Node) -> tuple[str, ...]:
    """The modules around a node, outermost first, without the leaf module itself, whose frame would hold one node."""
    paths = [entry[0] for entry in (node.meta.get("nn_module_stack") or {}).values() if entry[0]]
    if node.op == "call_module" and paths and paths[-1] == node.target:
        paths = paths[:-1]
    return tuple(paths)


def _draw_clusters(dot: Any, nodes: Iterable[Node], paths: dict[Node, tuple[str, ...]], box: Any) -> None:
    tree: dict[str, Any] = {"": []}
    for node in nodes:
        level = tree
        for path in paths[node]:
            level = level.setdefault(path, {"": []})
        level[""].append(node)

    def draw(parent: Any, level: dict[str, Any]) -> None:
        for node in level[""]:
            parent.node(node.name, **box(node))
        for path, inner in level.items():
            if path:
                with parent.subgraph(name=f"cluster_{path}") as frame:
                    frame.attr(label=path, style="rounded", color="grey60", fontcolor="grey30")
                    draw(frame, inner)

    draw(dot, tree)


def _draw_collapsed(dot: DotGraph, nodes: list[Node], limit: int) -> None:
    """Draw the deepest level of modules that has at most ``limit`` boxes and not too many edges; each box shows its
    number of nodes."""
    depth = 8
    while True:
        owner = {n: ".".join((_module_path(n) or ("",))[-1].split(".")[:depth]) or n.name for n in nodes}
        edges = {(owner[source], owner[node]) for source, node in _edges(nodes) if source in owner}
        few = len(set(owner.values())) <= limit and len(edges) <= _EDGES_PER_BOX * limit
        if few or depth == 1:
            break
        depth -= 1
    for box, count in Counter(owner.values()).items():
        label = f"{box}\\l{count} nodes\\l" if count > 1 else f"{box}\\l"
        dot.node(
            box,
            label=label,
            shape="box",
            style="filled,rounded",
            fillcolor="LemonChiffon1" if count > 1 else "AliceBlue",
        )
    for source, target in sorted(edges):
        if source != target:
            dot.edge(source, target)


def _type_name(module: torch.nn.Module) -> str:
    return f"{type(module).__module__.split('.')[0]}.{type(module).__name__}"


def _tensor(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _escaped(text: str) -> str:
    text = text if len(text) <= 120 else text[:117] + "..."
    text = text.replace("\\", "\\\\").replace("\n", " ")
    for character in '{}|<>"':
        text = text.replace(character, "\\" + character)
    return text
