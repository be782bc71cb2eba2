"""Replacing every occurrence of one graph by another.

Finding the occurrences is ``passes.utils.matcher_utils``'s part; here they are exchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fxlib.capture.tracer import _collector_paused, symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop.convert import adopted, from_torch_graph, in_place
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.order import link_before

if TYPE_CHECKING:
    from fxlib.passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """An occurrence that was replaced: the last node of it, and what each pattern node matched."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """As ``Match``, and the nodes that replaced the occurrence."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replaces every occurrence of ``pattern`` in ``gm`` by ``replacement``, in place.

    Both are functions or modules, traced here, or GraphModules, with parameters in the same order. Operators and
    targets of the pattern have to be equal to those of the graph, names do not; a pattern's parameter stands for any
    value. A match may not overlap an earlier one, and only values which the pattern returns may be used outside.

    Returns:
        the matches that were replaced, with the graph's former nodes.

    Example::

        def pattern(w1, w2):
            return torch.cat([w1, w2]).sum()

        def replacement(w1, w2):
            return torch.stack([w1, w2])

        replace_pattern(symbolic_trace(Model()), pattern, replacement)

    Raises:
        AssertionError: pattern and replacement differ in the number of parameters or of values returned.
        RuntimeError: the replacement refers to a module or parameter that neither it nor ``gm`` has.
    """
    with _collector_paused():
        replaced = in_place(gm, lambda ours: _replace_pattern(ours, pattern, replacement))
        return [Match(found.anchor, found.nodes_map) for found in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """As ``replace_pattern``, for the matches that every filter accepts.

    Args:
        gm: the module to change.
        pattern: what to look for.
        replacement: what to put there.
        match_filters: called as ``(match, graph, pattern_graph)``; all have to return true.
        ignore_literals: constants of the pattern match any constant.
        replacement_callback: called likewise for each match, returns the graph to put there instead of ``replacement``.
        node_name_match: take nodes whose name contains this text for equal to any pattern node.
    """
    return in_place(
        gm,
        lambda ours: _replace_pattern(
            ours, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
        ),
    )


def _replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    from fxlib.passes.utils.matcher_utils import SubgraphMatcher

    graph = gm.graph
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    with _collector_paused():
        matches = matcher.match(graph, node_name_match=node_name_match)
    matches = [
        match for match in matches if all(accepts(match, graph, pattern_graph) for accepts in match_filters or ())
    ]
    common = None
    if replacement is not None:
        common = _graph_of(replacement)
        inputs = _inputs_of(common)
    elif replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")

    pattern_nodes = [node for node in reversed(pattern_graph.nodes) if node.op not in ("placeholder", "output")]
    became: dict[Node, Any] = {}
    replaced = []
    with _collector_paused():
        for match in matches:
            inserted = common
            if replacement_callback is not None:
                inserted = replacement_callback(match, graph, pattern_graph)
                inputs = _inputs_of(inserted)
            assert inserted is not None
            _follow_replaced_inputs(match, became)
            new_nodes, results = _insert(graph, inserted, inputs, match)
            if len(match.returning_nodes) != len(results):
                raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
            for old, new in zip(match.returning_nodes, results, strict=False):
                old.replace_all_uses_with(new)
                became[old] = new
            for node in pattern_nodes:
                if node in match.nodes_map:
                    graph.erase_node(match.nodes_map[node])
            replaced.append(ReplacedPatterns(match.anchors[0], match.nodes_map, new_nodes))
        gm.recompile()
    if isinstance(replacement, torch.nn.Module):
        _replace_attributes(gm, replacement)
    return replaced


def _graph_of(source: Any) -> Graph:
    source = from_torch_graph(source) if isinstance(source, foreign_graph) else adopted(source)
    if isinstance(source, GraphModule):
        return source.graph
    return source if isinstance(source, Graph) else symbolic_trace(source).graph


def _follow_replaced_inputs(match: InternalMatch, became: dict[Node, Any]) -> None:
    """An input that an earlier replacement has taken away is now what that put in its place."""
    for position, node in enumerate(match.placeholder_nodes):
        if isinstance(node, Node) and node in became and became[node] is not node:
            match.placeholder_nodes[position] = became[node]
            for pattern_node, found in match.nodes_map.items():
                if found is node:
                    match.nodes_map[pattern_node] = became[node]
                    break


def _inputs_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _insert(
    graph: Graph, replacement: Graph, inputs: list[Node], match: InternalMatch
) -> tuple[list[Node], tuple[Any, ...]]:
    """Copies ``replacement``, whose placeholders are ``inputs``, to where ``match`` is; returns its nodes there and the
    values that it returns."""
    given = match.placeholder_nodes
    if len(given) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(given)} vs {len(inputs)}")
    copies: dict[Node, Any] = dict(zip(inputs, given, strict=True))
    users: dict[Node, None] = {}
    for node in match.returning_nodes:
        users.update(node.users)
    if users:
        position = next(iter(users)) if len(users) == 1 else min(users)
    else:
        # Nobody uses the result, so it is there for what it does: stay where the last node of it was.
        position = max(match.returning_nodes).next
    outside, graph._insert = graph._insert, partial(link_before, position)
    try:
        result = graph.graph_copy(replacement, copies)
    finally:
        graph._insert = outside
    results = (result,) if isinstance(result, Node) else tuple(result)
    return list(copies.values())[len(inputs) :], results


def _replace_attributes(gm: GraphModule, replacement: torch.nn.Module) -> None:
    """Gives ``gm`` copies of the modules and parameters that the inserted nodes refer to."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    missing = object()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if _find_attribute(gm, node.target, missing) is not missing:
            continue
        found = _find_attribute(replacement, node.target, missing)
        if found is missing:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        added = copy.deepcopy(found)
        if isinstance(added, torch.nn.Module):
            gm.add_submodule(node.target, added)
        else:
            _set_attribute(gm, node.target, added)
    gm.graph.lint()


def _find_attribute(module: torch.nn.Module, target: str, missing: object) -> Any:
    owner_path, _, name = target.rpartition(".")
    try:
        return getattr(module.get_submodule(owner_path), name, missing)
    except AttributeError:
        return missing


def _set_attribute(module: GraphModule, target: str, value: Any) -> None:
    owner_path, _, name = target.rpartition(".")
    try:
        owner = module.get_submodule(owner_path)
    except AttributeError:
        module.add_submodule(owner_path, torch.nn.Module())
        owner = module.get_submodule(owner_path)
    setattr(owner, name, value)
