"""Finding occurrences of a small graph in a large one.

A pattern's placeholders match anything; every other node of it matches a node of the same opcode and target whose
arguments match in turn. A match is kept if no inner value is used outside, except those that the pattern returns, if
fusing it would not create a cycle, and if it shares no node with an earlier match.

The search starts at the pattern's last nodes (anchors). All anchors but the first are searched only around the nodes
matched so far, and the check for cycles stops at the end of the match, so that the time grows with the graph's size
times the pattern's, not with its square.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch

from fxlib.ir.arguments import CALLS
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.utils.fuser_utils import validate_partition
from fxlib.passes.utils.routes import along, route
from fxlib.passes.utils.unification import Unifier

__all__ = ["InternalMatch", "SubgraphMatcher"]

logger = logging.getLogger(__name__)


@dataclass
class InternalMatch:
    """One occurrence of a pattern.

    ``nodes_map`` takes a node of the pattern to what it matches: a node, or for a placeholder also a literal.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        copies = {each.name: copy.copy(getattr(self, each.name)) for each in dataclasses.fields(self)}
        return InternalMatch(**copies)

    def inner_nodes(self) -> list[Node]:
        """The graph's nodes inside the match, without those matched by its inputs and output."""
        return [gn for pn, gn in self.nodes_map.items() if pn.op not in ("placeholder", "output")]


class SubgraphMatcher:
    """Finds the occurrences of ``pattern``.

    Args:
        pattern: the graph to look for; every node but its placeholders and output needs a user.
        match_output: the pattern's output has to be the graph's output.
        match_placeholder: a placeholder of the pattern matches a placeholder only.
        remove_overlapping_matches: keep only the first of matches that share a node.
        ignore_literals: constants in the arguments may differ.

    Raises:
        ValueError: the pattern has no nodes.
        AssertionError: the pattern has dead code, which could match nothing.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        if any(not (node.users or node.op == "output" or node.is_impure()) for node in pattern.nodes):
            raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals

        *_, output = pattern.nodes
        returned: list[Node] = list(output.all_input_nodes)
        self.pattern_placeholder_nodes: list[Node] = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes = returned
        self.pattern_anchors: list[Node] = [output]
        if not match_output:
            self.pattern_anchors = [node for node in returned if len(node.users) == 1]
        self._returning = frozenset(returned)
        anchors = self.pattern_anchors
        self._routes = [route(anchor, anchors[:position]) for position, anchor in enumerate(anchors)]

    # --- what makes two nodes equal -----------------------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Attributes match when both are tensors; their values and names do not count."""
        expected, found = map(_attribute_of, (pn, gn))
        if type(expected) is type(found) and not isinstance(expected, torch.Tensor):
            raise RuntimeError(f"Unsupported type {expected} when matching attributes")
        return type(expected) is type(found)

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Whether the nodes match, not considering their arguments."""
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        compare = {"get_attr": self._match_attributes, "placeholder": _always, "output": _always}
        return pn.op == gn.op and compare.get(pn.op, _same_target)(pn, gn)

    def _unifier(self, node_name_match: str) -> Unifier:
        """Unification by `_nodes_are_equal`, which is not called where its result is already known."""
        free: Iterable[Node] = ()
        calls: Iterable[Node] = ()
        if type(self)._nodes_are_equal is SubgraphMatcher._nodes_are_equal and not node_name_match:
            free = () if self.match_placeholder else self.pattern_placeholder_nodes
            calls = (node for node in self.pattern.nodes if node.op in CALLS)

        def equal(pn: Node, gn: Node) -> bool:
            return self._nodes_are_equal(pn, gn, node_name_match)

        return Unifier(frozenset(free), frozenset(calls), equal, self.ignore_literals)

    # --- the search ---------------------------------------------------------------------------------------------------

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences of the pattern in ``graph``, in the order of the graph.

        Args:
            graph: where to look.
            node_name_match: treat nodes whose name contains this text as equal to any pattern node.
        """
        anchors = self.pattern_anchors
        unifier = self._unifier(node_name_match)
        candidates = [unifier.candidates(anchor, graph) for anchor in anchors]
        logger.info("%s candidates for the anchors %s", [len(found) for found in candidates], anchors)
        if not (candidates and all(candidates)):
            return []
        exact = not (self.ignore_literals or node_name_match)
        found: list[dict[Node, Any]] = [{}]
        for anchor, path, everywhere in zip(anchors, self._routes, candidates, strict=True):
            near = _nearby(path if exact and anchor is not anchors[0] else None, everywhere)
            attempts = ((bound.copy(), node) for bound in found for node in near(bound))
            found = [bound for bound, node in attempts if unifier.unify(anchor, node, bound)]
        matches = [self._described(bound) for bound in found]
        matches = [match for match in matches if self._is_contained(match.nodes_map) and self._is_convex(match)]
        if self.remove_overlapping_matches:
            matches = self._remove_overlapping_matches(matches)
        logger.info("%d matches", len(matches))
        return matches

    def _described(self, bound: dict[Node, Any]) -> InternalMatch:
        inputs, returned = self.pattern_placeholder_nodes, self.pattern_returning_nodes
        return InternalMatch(self.pattern_anchors, bound, [bound[pn] for pn in inputs], [bound[pn] for pn in returned])

    # --- which matches to keep ----------------------------------------------------------------------------------------

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether no value inside the match, other than what the pattern returns, is used outside."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(pn in self._returning or inside.keys() >= gn.users.keys() for gn, pn in inside.items())

    def _is_convex(self, match: InternalMatch) -> bool:
        """Whether no path leaves the match and comes back."""
        # With one value returned, only it has users outside, and everything else in the match leads to it: a path from
        # those users back into the match would be a cycle in the graph itself.
        return len(self._returning) == 1 or validate_partition(match.inner_nodes())

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        """The matches without those that share a node with an earlier one."""
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            nodes = match.inner_nodes()
            if taken.isdisjoint(nodes):
                kept.append(match)
                taken.update(nodes)
        return kept


def _always(pn: Node, gn: Node) -> bool:
    return True


def _same_target(pn: Node, gn: Node) -> bool:
    return bool(pn.target == gn.target)


def _nearby(path: list[Node] | None, candidates: list[Node]) -> Callable[[dict[Node, Any]], list[Node]]:
    """The candidates for an anchor that are reachable from the nodes matched so far."""
    if path is None:
        return lambda bound: candidates
    members = set(candidates)
    return lambda bound: along(path, bound, members)


def _attribute_of(node: Node) -> Any:
    return attrgetter(str(node.target))(node.graph.owning_module)
