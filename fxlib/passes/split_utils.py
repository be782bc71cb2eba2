"""Splitting a module into submodules by the tags that its nodes carry, and attributes at dotted paths.

``split_module`` splits by a function instead; both leave parameters shared with the original.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import from_torch_graph
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node, map_arg

# Names that programs import from here although other files define them.
from fxlib.passes.tools_common import CALLABLE_NODE_OPS, NodeList, is_node_output_tensor  # noqa: F401
from fxlib.passes.utils.lifting import HolderModule, lift_subgraph_as_module

__all__ = [
    "Component",
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


@dataclass
class Component:
    """One part of a split: the graph that is being filled, and what goes in and out of it in the original's nodes."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


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
        AssertionError: a call has no tag, or needs a value of a later part.
        KeyError: a tag that is not in ``tags``.
    """
    components = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
    home: dict[Node, Component] = {}
    made: dict[Node, Node] = {}
    main = Graph()
    in_main: dict[Node, Node] = {}
    output = None
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            placed = in_main[node] = main.node_copy(node)
            placed.meta = copy.copy(node.meta)
        elif node.op == "output":
            output = node
        elif node.op != "get_attr":
            component = _component_of(node, components)
            _check_order(node, component, home)
            home[node] = component
            made[node] = component.graph.node_copy(
                node,
                lambda used, component=component: _inside(used, component, home, made),  # type: ignore[misc]
            )
    if output is None:
        raise AssertionError("Graph had no output node!")
    for used in output.all_input_nodes:
        if used.op not in ("placeholder", "get_attr"):
            _add_once(home[used].orig_outputs, used)

    moved: dict[str, str] = {}
    submodules: dict[str, GraphModule] = {}
    for component in components.values():
        results = tuple(made[node] for node in component.orig_outputs)
        single = len(results) == 1 and not return_tuple
        component.graph.output(results[0] if single else results)
        part, mapping = lift_subgraph_as_module(
            gm, component.graph, comp_name=component.name, class_name=GraphModuleCls.__name__
        )
        component.gm = part if type(part) is GraphModuleCls else GraphModuleCls(part, part.graph)
        moved.update(mapping)
        submodules[component.name] = component.gm
        called = main.call_module(component.name, tuple(in_main[node] for node in component.orig_inputs))
        for index, node in enumerate(component.orig_outputs):
            in_main[node] = called if single else main.call_function(operator.getitem, (called, index))
    for used in output.all_input_nodes:
        if used.op == "get_attr":
            in_main[used] = main.get_attr(str(used.target))
    main.output(map_arg(output.args[0], in_main.__getitem__)).meta = copy.copy(output.meta)

    holder = HolderModule(dict(submodules))
    for node in main.nodes:
        if node.op == "get_attr":
            _install(holder, str(node.target), getattr_recursive(gm, str(node.target)))
    graph = from_torch_graph(gm.graph) if isinstance(gm.graph, foreign_graph) else gm.graph
    main.set_codegen(graph._codegen)
    result = GraphModuleCls(holder, main)
    return (result, moved) if return_fqn_mapping else result


def _component_of(node: Node, components: dict[str, Component]) -> Component:
    if not hasattr(node, "tag"):
        raise AssertionError(f"Node does not have tag: {node.format_node()}")
    return components[node.tag]


def _check_order(node: Node, component: Component, home: dict[Node, Component]) -> None:
    latest = max((home[used].order for used in node.all_input_nodes if used in home), default=0)
    if component.order < latest:
        raise AssertionError(
            f"Component {component.name} order must be >= max of its upstream components, "
            f"order={component.order} and max={latest}"
        )


def _inside(used: Node, component: Component, home: dict[Node, Component], made: dict[Node, Node]) -> Node:
    """The node that stands for ``used`` inside a component: its own, a copied attribute or an input."""
    if home.get(used) is component:
        return made[used]
    if used.op == "get_attr":
        if used not in component.getattr_maps:
            copied = component.graph.get_attr(str(used.target), type_expr=used.type)
            copied.meta = copy.copy(used.meta)
            component.getattr_maps[used] = copied
        return component.getattr_maps[used]
    if used not in component.orig_inputs:
        placeholder = component.graph.placeholder(used.name, type_expr=used.type)
        placeholder.meta = copy.copy(used.meta)
        component.orig_inputs.append(used)
        component.input_placeholders.append(placeholder)
        if used in home:
            _add_once(home[used].orig_outputs, used)
    return component.input_placeholders[component.orig_inputs.index(used)]


def _add_once(nodes: list[Node], node: Node) -> None:
    if node not in nodes:
        nodes.append(node)


def _install(holder: torch.nn.Module, path: str, value: Any) -> None:
    owner: torch.nn.Module = holder
    *parts, name = path.split(".")
    for part in parts:
        if not hasattr(owner, part):
            owner.add_module(part, torch.nn.Module())
        owner = getattr(owner, part)
    setattr(owner, name, value)
