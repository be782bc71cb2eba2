"""Replacing every occurrence of one graph by another.

``passes.utils.matcher_utils`` finds the occurrences; here they are replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fxlib.capture.hot_loop import collector_paused
from fxlib.capture.symbolic_trace import symbolic_trace
from fxlib.codegen.graph_module import GraphModule
from fxlib.codegen.roots import attribute_targets
from fxlib.codegen.traced import check_traced
from fxlib.interop.convert import adopted, from_torch_graph, in_place
from fxlib.interop.torch_side import foreign_graph
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.ir.order import link_before
from fxlib.ir.paths import attribute_of_modules, place

if TYPE_CHECKING:
    from fxlib.passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


_ABSENT = object()


class Match(NamedTuple):
    """An occurrence that was replaced: the last node of it, and what each pattern node matched."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """Like ``Match``, with the nodes that replaced the occurrence."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replaces every occurrence of ``pattern`` in ``gm`` by ``replacement``, in place.

    Both are functions or modules, traced here, or GraphModules, with parameters in the same order. Operators and
    targets of the pattern must equal those of the graph, names need not; a pattern's parameter matches any value. A
    match may not overlap an earlier one, and only values which the pattern returns may be used outside.

    Returns:
        the matches that were replaced, with the graph's former nodes.

    Example::

        def slow(x, y):
            return torch.sqrt(torch.square(x) + torch.square(y))

        gm = fxlib.symbolic_trace(Polar())
        found = fxlib.replace_pattern(gm, slow, lambda x, y: torch.hypot(x, y))
        print(len(found), "replaced, the last of them at", found[-1].anchor)

    Raises:
        AssertionError: pattern and replacement differ in the number of parameters or of values returned.
        RuntimeError: the replacement refers to a module or parameter that neither it nor ``gm`` has.
    """
    check_traced(gm, "replace_pattern()")
    with collector_paused():
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
        node_name_match: treat nodes whose name contains this text as equal to any pattern node.
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

    pattern_graph = _graph_of(pattern)
    asked = gm.graph, pattern_graph
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    with collector_paused():
        found = matcher.match(gm.graph, node_name_match=node_name_match)
    for accepts in match_filters or ():
        found = [match for match in found if accepts(match, *asked)]

    template_for = _templates(replacement, replacement_callback, asked)
    exchange = _Exchange(*asked)
    with collector_paused():
        replaced = [exchange(match, template_for(match)) for match in found]
        gm.recompile()
    if isinstance(replacement, torch.nn.Module):
        _replace_attributes(gm, replacement)
    return replaced


def _graph_of(source: Any) -> Graph:
    if isinstance(source, foreign_graph):
        return from_torch_graph(source)
    if isinstance(source, Graph):
        return source
    module = adopted(source)
    return module.graph if isinstance(module, GraphModule) else symbolic_trace(module).graph


def _templates(
    replacement: Any,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None,
    asked: tuple[Graph, Graph],
) -> Callable[[InternalMatch], _Template]:
    """A function that returns the template for each match: one for all, or one made by the user's callback."""
    if callback is not None:
        return lambda match: _Template(callback(match, *asked))
    if replacement is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = _Template(_graph_of(replacement))
    return lambda match: common


class _Template:
    """A graph that is put in place of an occurrence, and its placeholders."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs = graph.find_nodes(op="placeholder")


class _Exchange:
    """Replaces the occurrences of one pattern in one graph."""

    def __init__(self, graph: Graph, pattern: Graph) -> None:
        self.graph = graph
        # Users before what they use.
        self.inner = [node for node in reversed(pattern.nodes) if node.op not in ("placeholder", "output")]
        # Replaced value -> its replacement.
        self.became: dict[Node, Any] = {}

    def __call__(self, match: InternalMatch, template: _Template) -> ReplacedPatterns:
        self._follow_inputs(match)
        added, results = self._insert(match, template)
        if len(results) != len(match.returning_nodes):
            raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
        for value, now in zip(match.returning_nodes, results, strict=True):
            # A value that is returned twice has its users at the first.
            value.replace_all_uses_with(now)
            self.became[value] = now
        for matched in filter(None, map(match.nodes_map.get, self.inner)):
            self.graph.erase_node(matched)
        return ReplacedPatterns(match.anchors[0], match.nodes_map, added)

    def _follow_inputs(self, match: InternalMatch) -> None:
        """Map inputs that an earlier replacement removed to their replacements."""
        for position, node in enumerate(match.placeholder_nodes):
            if isinstance(node, Node) and node in self.became:
                match.placeholder_nodes[position] = now = self.became[node]
                match.nodes_map.update({part: now for part, found in match.nodes_map.items() if found is node})

    def _insert(self, match: InternalMatch, template: _Template) -> tuple[list[Node], tuple[Any, ...]]:
        """Copies the template to the place of the match; returns the new nodes and the values that the template
        returns."""
        given = match.placeholder_nodes
        if len(given) != len(template.inputs):
            raise AssertionError(f"Placeholder count mismatch: {len(given)} vs {len(template.inputs)}")
        copies: dict[Node, Any] = dict(zip(template.inputs, given, strict=True))
        graph = self.graph
        outside, graph._insert = graph._insert, partial(link_before, _first_after(match.returning_nodes))
        try:
            value: Any = graph.graph_copy(template.graph, copies)
        finally:
            graph._insert = outside
        added = [*copies.values()][len(given) :]
        return added, (value,) if isinstance(value, Node) else tuple(value)


def _first_after(values: list[Node]) -> Node:
    """The first node that uses one of the values: the replacement must come before it."""
    users = {user: None for value in values for user in value.users}
    if users:
        return min(users) if len(users) > 1 else next(iter(users))
    # The result is unused, so the match is there for its side effect: it stays at its last node.
    return max(values).next


def _replace_attributes(gm: GraphModule, replacement: torch.nn.Module) -> None:
    """Gives ``gm`` copies of the modules and parameters that the inserted nodes refer to."""
    gm.delete_all_unused_submodules()
    inserted = getattr(replacement, "graph", None)
    if isinstance(inserted, Graph):
        inserted.lint()
    for path, node in attribute_targets(gm.graph).items():
        if attribute_of_modules(gm, path, _ABSENT) is _ABSENT:
            place(gm, path, copy.deepcopy(_required(replacement, path, node)))
    gm.graph.lint()


def _required(replacement: torch.nn.Module, path: str, node: Node) -> Any:
    found = attribute_of_modules(replacement, path, _ABSENT)
    if found is _ABSENT:
        raise RuntimeError(
            f'Attempted to create a "{node.op}" node during subgraph rewriting with target {path}, but the referenced '
            "attribute does not exist in the replacement GraphModule"
        )
    return found
