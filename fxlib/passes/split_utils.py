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
from fxlib.ir.paths import find

# Names that programs import from here although other files define them.
from fxlib.passes.tools_common import CALLABLE_NODE_OPS, NodeList, is_node_output_tensor  # noqa: F401
from fxlib.passes.utils.extraction import ExtractionWithAttributes, results_of
from fxlib.passes.utils.lifting import HolderModule, lift_subgraph_as_module  # noqa: F401

__all__ = [
    "getattr_recursive",
    "setattr_recursive",
    "split_by_tags",
]


def getattr_recursive(obj: object, name: str) -> Any:
    """The attribute of ``obj`` at the dotted path ``name``; ``None`` if a part of the path is missing."""
    return find(obj, name)


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
        return_tuple: submodules return a tuple even for a single result.
        GraphModuleCls: the class of the submodules and of the result.

    Raises:
        AssertionError: a call has no tag, or needs a value of a later part; or the graph has no output.
        KeyError: a tag that is not in ``tags``.
    """
    parts = _parts(gm, tags)
    root: dict[str, object] = {}
    moved: dict[str, str] = {}
    for tag, part in parts.items():
        part.as_tuple = part.give(part.results, return_tuple)
        lifted, renamed = lift_subgraph_as_module(gm, part.graph, tag, GraphModuleCls.__name__)
        root[tag] = lifted if type(lifted) is GraphModuleCls else GraphModuleCls(lifted, lifted.graph)
        moved |= renamed
    main = _calling(gm, parts)
    root.update((str(node.target), getattr_recursive(gm, str(node.target))) for node in main.find_nodes(op="get_attr"))
    graph = from_torch_graph(gm.graph) if isinstance(gm.graph, foreign_graph) else gm.graph
    main.set_codegen(graph._codegen)
    result = GraphModuleCls(root, main)
    return (result, moved) if return_fqn_mapping else result


class _Part(ExtractionWithAttributes):
    """The submodule of one tag."""

    def __init__(self, tag: str, order: int) -> None:
        self.members: set[Node] = set()
        super().__init__(self.members)
        self.tag = tag
        self.order = order
        #: The values that others use, in the order of first use.
        self.results: dict[Node, None] = {}
        self.as_tuple = False


def _parts(gm: GraphModule, tags: list[str]) -> dict[str, _Part]:
    """The graphs of all parts, without their outputs."""
    parts = {tag: _Part(tag, order) for order, tag in enumerate(tags)}
    home: dict[Node, _Part] = {}
    for node in gm.graph.nodes:
        if node.op in CALLABLE_NODE_OPS:
            home[node] = _part_of(node, parts, home)
            home[node].members.add(node)
        for used in node.all_input_nodes:
            if used in home and home[used] is not home.get(node):
                home[used].results[used] = None
    for node, part in home.items():
        part.add(node)
    return parts


def _calling(gm: GraphModule, parts: dict[str, _Part]) -> Graph:
    """The graph that calls the parts."""
    outputs = gm.graph.find_nodes(op="output")
    if not outputs:
        raise AssertionError("Graph had no output node!")
    main = ExtractionWithAttributes(())
    for node in gm.graph.find_nodes(op="placeholder"):
        main.add(node)
    for tag, part in parts.items():
        called = main.graph.call_module(tag, tuple(map(main.stand_in, part.inputs)))
        main.copies.update(zip(part.results, results_of(called, len(part.results), part.as_tuple), strict=True))
    output = main.graph.output(map_arg(outputs[0].args[0], main.stand_in))
    output.meta = copy.copy(outputs[0].meta)
    return main.graph


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
