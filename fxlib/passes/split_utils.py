"""Splitting a module into submodules by the tags that its nodes carry, and attributes at dotted paths.

``split_module`` splits by a function instead; both leave parameters shared with the original.
"""

from __future__ import annotations

import copy
from typing import Any

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import from_torch_graph
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg

# Names that programs import from here although other files define them.
from fxlib.passes.tools_common import CALLABLE_NODE_OPS, NodeList, is_node_output_tensor  # noqa: F401
from fxlib.passes.utils.extraction import Extraction, results_of
from fxlib.passes.utils.lifting import HolderModule, lift_subgraph_as_module  # noqa: F401

__all__ = [
    "getattr_recursive",
    "setattr_recursive",
    "split_by_tags",
]


def getattr_recursive(obj: object, name: str) -> Any:
    """The attribute of ``obj`` at the dotted path ``name``; ``None`` where a part of the path is missing."""
    for part in name.split("."):
        obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def setattr_recursive(obj: object, attr: str, value: object) -> None:
    """Sets the attribute of ``obj`` at the dotted path ``attr``, whose owner must exist.

    Raises:
        AttributeError: a part of the path before the last is missing.
    """
    owner, _, name = attr.rpartition(".")
    setattr(getattr_recursive(obj, owner) if owner else obj, name, value)


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """A module with one submodule per tag that calls them in the order of ``tags``.

    ``node.tag`` says to which submodule a call belongs. Placeholders and the output need no tag; a ``get_attr`` is
    copied into each submodule that uses it.

    Example::

        for node in gm.graph.nodes:
            node.tag = "encoder" if node.name.startswith("enc") else "decoder"
        split = split_by_tags(gm, ["encoder", "decoder"])  # split.encoder, split.decoder

    Args:
        gm: the module; it is not changed, and its parameters and submodules are shared with the result.
        tags: every tag that occurs, in an order in which the parts can run.
        return_fqn_mapping: also return where each submodule and attribute went: ``{"linear1": "encoder.linear1"}``.
        return_tuple: submodules with one result return it as a tuple too.
        GraphModuleCls: the class of the submodules and of the result.

    Raises:
        AssertionError: a call has no tag, or needs a value of a later part; or the graph has no output.
        KeyError: a tag that is not in ``tags``.
    """
    outputs = gm.graph.find_nodes(op="output")
    if not outputs:
        raise AssertionError("Graph had no output node!")
    output = outputs[0]
    parts = {tag: _Part(tag, order) for order, tag in enumerate(tags)}
    home: dict[Node, _Part] = {}
    for node in gm.graph.nodes:
        if node.op in CALLABLE_NODE_OPS:
            home[node] = _part_of(node, parts, home)
            home[node].members.add(node)
        _note_results(node, home)
    for node, part in home.items():
        part.add(node)

    main = Graph()
    values: dict[Node, Node] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        values[node] = main.node_copy(node)
        values[node].meta = copy.copy(node.meta)
    moved: dict[str, str] = {}
    root: dict[str, object] = {}
    for part in parts.values():
        as_tuple = part.give(part.results, return_tuple)
        lifted, renamed = lift_subgraph_as_module(gm, part.graph, part.tag, GraphModuleCls.__name__)
        root[part.tag] = lifted if type(lifted) is GraphModuleCls else GraphModuleCls(lifted, lifted.graph)
        moved.update(renamed)
        called = main.call_module(part.tag, tuple(values[node] for node in part.inputs))
        values.update(zip(part.results, results_of(called, len(part.results), as_tuple), strict=True))
    for used in output.all_input_nodes:
        if used.op == "get_attr":
            target = str(used.target)
            values[used] = main.get_attr(target)
            root[target] = getattr_recursive(gm, target)
    main.output(map_arg(output.args[0], values.__getitem__)).meta = copy.copy(output.meta)
    graph = from_torch_graph(gm.graph) if isinstance(gm.graph, foreign_graph) else gm.graph
    main.set_codegen(graph._codegen)
    result = GraphModuleCls(root, main)
    return (result, moved) if return_fqn_mapping else result


class _Part(Extraction):
    """The submodule of one tag: attributes that it uses are copied into it, other values are inputs."""

    def __init__(self, tag: str, order: int) -> None:
        self.members: set[Node] = set()
        super().__init__(self.members)
        self.tag = tag
        self.order = order
        #: What others use of it, in the order of the first use.
        self.results: dict[Node, None] = {}

    def stand_in(self, used: Node) -> Node:
        if used.op == "get_attr" and used not in self.copies:
            copied = self.copies[used] = self.graph.get_attr(str(used.target), type_expr=used.type)
            copied.meta = copy.copy(used.meta)
        return self.copies[used] if used in self.copies else super().stand_in(used)


def _part_of(node: Node, parts: dict[str, _Part], home: dict[Node, _Part]) -> _Part:
    if not hasattr(node, "tag"):
        raise AssertionError(f"Node does not have tag: {node.format_node()}")
    part = parts[node.tag]
    latest = max((home[used].order for used in node.all_input_nodes if used in home), default=0)
    if part.order < latest:
        raise AssertionError(
            f"Component {part.tag} order must be >= max of its upstream components, order={part.order} and max={latest}"
        )
    return part


def _note_results(user: Node, home: dict[Node, _Part]) -> None:
    for used in user.all_input_nodes:
        if used in home and home[used] is not home.get(user):
            home[used].results.setdefault(used)
