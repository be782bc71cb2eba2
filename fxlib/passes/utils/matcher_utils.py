"""Finding occurrences of a small graph in a large one.

A pattern's placeholders match anything; every other node of it matches a node of the same opcode and target whose
arguments match in turn. A match is kept when no value inside is used outside, except those that the pattern returns,
when fusing it would not close a cycle, and when it shares no node with an earlier match.

The search starts at the pattern's last nodes (anchors). All but the first anchor are looked for only around what is
matched already, and the check for cycles looks no further than the end of the match, so that the time grows with the
graph's size times the pattern's, not with its square.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fxlib.ir import node as _nodes
from fxlib.ir.graph import Graph
from fxlib.ir.node import Node
from fxlib.passes.utils.fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]

logger = logging.getLogger(__name__)

_BOUNDARY_OPS = frozenset({"placeholder", "output"})


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
        return InternalMatch(
            anchors=self.anchors,
            nodes_map=self.nodes_map.copy(),
            placeholder_nodes=self.placeholder_nodes.copy(),
            returning_nodes=self.returning_nodes.copy(),
        )


class SubgraphMatcher:
    """Finds the occurrences of ``pattern``.

    Args:
        pattern: the graph to look for; every node but its placeholders and output needs a user.
        match_output: the pattern's output has to be the graph's output.
        match_placeholder: a placeholder of the pattern matches a placeholder only.
        remove_overlapping_matches: of matches that share a node keep the first.
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
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals

        nodes = list(pattern.nodes)
        if not nodes:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        if any(not node.users for node in nodes if node.op != "output" and not node.is_impure()):
            raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        output = nodes[-1]
        self.pattern_placeholder_nodes = [node for node in nodes if node.op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = list(output.all_input_nodes)
        self._returning = frozenset(self.pattern_returning_nodes)
        # Half of what is to be matched are the pattern's inputs; these match anything, unless someone has a say in it.
        cls = type(self)
        usual = cls._match_nodes is SubgraphMatcher._match_nodes
        usual = usual and cls._nodes_are_equal is SubgraphMatcher._nodes_are_equal and not match_placeholder
        self._quick_inputs = frozenset(self.pattern_placeholder_nodes if usual else ())
        self.pattern_anchors: list[Node] = (
            [output] if match_output else [node for node in self.pattern_returning_nodes if len(node.users) == 1]
        )
        self._routes = [
            _route(anchor, self.pattern_anchors[:position]) for position, anchor in enumerate(self.pattern_anchors)
        ]

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Attributes match when both are tensors; their values and names do not count."""
        pattern_value = _attribute_of(pn)
        value = _attribute_of(gn)
        if type(pattern_value) is not type(value):
            return False
        if isinstance(pattern_value, torch.Tensor):
            return isinstance(value, torch.Tensor)
        raise RuntimeError(f"Unsupported type {pattern_value} when matching attributes")

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Whether the nodes match when their arguments are left aside."""
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in _BOUNDARY_OPS:
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return pn.target == gn.target

    def _candidates(self, anchor: Node, graph: Graph, node_name_match: str) -> list[Node]:
        """The nodes of a graph that are equal to an anchor of the pattern."""
        equal = self._nodes_are_equal
        usual = type(self)._nodes_are_equal is SubgraphMatcher._nodes_are_equal and isinstance(graph, Graph)
        if usual and not node_name_match and anchor.op.startswith("call_"):
            op, target = anchor.op, anchor.target
            return [node for node in graph.nodes if node._op == op and node._target == target]
        return [node for node in graph.nodes if equal(anchor, node, node_name_match)]

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether no value inside the match, other than what the pattern returns, is used outside."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        returning = self._returning
        for gn, pn in inside.items():
            if pn not in returning:
                for user in gn.users:
                    if user not in inside:
                        return False
        return True

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        """The matches without those that share a node with an earlier one."""
        kept = []
        taken: set[Node] = set()
        for match in matches:
            nodes = _matched_nodes(match)
            if not taken.intersection(nodes):
                kept.append(match)
                taken.update(nodes)
        return kept

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if _is_node(pn):
            if _is_node(gn):
                raise AssertionError("pn and gn cannot both be Node")
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return bool(match.nodes_map[pn] == gn)
            match.nodes_map[pn] = gn
            return True
        return not _is_node(gn) and type(gn) is type(pn) and bool(gn == pn)

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Matches ``pn`` with ``gn`` and, through their arguments, all that they depend on; extends ``match``."""
        if not _is_node(pn) or not _is_node(gn):
            raise AssertionError(f"pn and gn must be Node, pn: {pn}, gn: {gn}")
        nodes_map = match.nodes_map
        if pn in nodes_map:
            return nodes_map[pn] is gn
        for value in nodes_map.values():
            if value is gn:
                return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        arguments = _comparable_arguments(pn, gn)
        if arguments is None or not self._match_arguments(*arguments, match, node_name_match):
            del nodes_map[pn]
            return False
        return True

    def _match_arguments(
        self, pattern_args: Sequence[Any], args: Sequence[Any], match: InternalMatch, node_name_match: str
    ) -> bool:
        if len(pattern_args) != len(args):
            return False
        quick = self._quick_inputs
        for expected, found in zip(pattern_args, args, strict=True):
            if type(expected) is Node and type(found) is Node and expected in quick:
                matched = _match_input(expected, found, match.nodes_map)
            elif _is_node(expected) and _is_node(found):
                matched = self._match_nodes(expected, found, match, node_name_match)
            elif isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
                matched = self._match_arguments(expected, found, match, node_name_match)
            else:
                matched = self._match_literals(expected, found, match) or self.ignore_literals
            if not matched:
                return False
        return True

    def _is_tree_of_calls(self) -> bool:
        """Whether the pattern is the commonest kind, for which ``_match_trees`` says the same as ``_match_nodes``: one
        value made by calls that take their arguments by position, and nobody has a say in what matches."""
        if len(self.pattern_anchors) != 1 or self.match_output or self.ignore_literals or not self._quick_inputs:
            return False
        own = type(self)
        if own._match_arguments is not SubgraphMatcher._match_arguments:
            return False
        if own._match_literals is not SubgraphMatcher._match_literals:
            return False
        return all(
            node.op in ("call_function", "call_module", "call_method")
            and not node.kwargs
            and not isinstance(node.target, torch._ops.OpOverload)
            and not any(isinstance(argument, (list, tuple)) for argument in node.args)
            for node in self.pattern.nodes
            if node.op not in _BOUNDARY_OPS
        )

    def _match_trees(self, candidates: list[Node]) -> list[InternalMatch]:
        anchors, anchor, inputs = self.pattern_anchors, self.pattern_anchors[0], self._quick_inputs
        given, returned = self.pattern_placeholder_nodes, self.pattern_returning_nodes
        matches = []
        for node in candidates:
            found: dict[Node, Node] = {}
            if _match_tree(anchor, node, found, inputs):
                matches.append(
                    InternalMatch(anchors, found, [found[pn] for pn in given], [found[pn] for pn in returned])
                )
        return matches

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences of the pattern in ``graph``, in the order of the graph.

        Args:
            graph: where to look.
            node_name_match: take a node whose name contains this text for equal to any pattern node.
        """
        candidates = [self._candidates(anchor, graph, node_name_match) for anchor in self.pattern_anchors]
        logger.info("%s candidates for the anchors %s", [len(found) for found in candidates], self.pattern_anchors)
        if not candidates or not all(candidates):
            return []
        routable = not self.ignore_literals and not node_name_match
        routable = routable and type(self)._match_nodes is SubgraphMatcher._match_nodes
        candidate_sets = [set(found) for found in candidates] if routable and len(candidates) > 1 else []
        matches: list[InternalMatch] = []

        def extend(position: int, match: InternalMatch) -> None:
            if position == len(self.pattern_anchors):
                match.placeholder_nodes = [match.nodes_map[pn] for pn in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
                matches.append(match)
                return
            nodes: Iterable[Node] = candidates[position]
            route = self._routes[position]
            if position > 0 and routable and route is not None:
                nodes = _along(route, match.nodes_map, candidate_sets[position])
            for node in nodes:
                attempt = copy.copy(match) if position else InternalMatch(self.pattern_anchors)
                if self._match_nodes(self.pattern_anchors[position], node, attempt, node_name_match):
                    extend(position + 1, attempt)

        if self._is_tree_of_calls() and isinstance(graph, Graph) and routable:
            matches = self._match_trees(candidates[0])
        else:
            extend(0, InternalMatch(anchors=self.pattern_anchors))
        # With one value returned, only it has users outside, and everything else in the match leads to it: a way from
        # those users back into the match would be a circle in the graph itself.
        convex = len(self._returning) == 1
        matches = [
            match
            for match in matches
            if self._is_contained(match.nodes_map) and (convex or validate_partition(_matched_nodes(match)))
        ]
        if self.remove_overlapping_matches:
            matches = self._remove_overlapping_matches(matches)
        logger.info("%d matches", len(matches))
        return matches


def _is_node(value: Any) -> bool:
    """Whether a value is a node, of fxlib or, in a graph that other tools made, of torch.fx."""
    return type(value) is Node or isinstance(value, _nodes._node_types)


def _match_tree(pn: Node, gn: Node, nodes_map: dict[Node, Any], inputs: frozenset[Node]) -> bool:
    """Matches ``pn`` with ``gn`` and all that they depend on; see ``SubgraphMatcher._is_tree_of_calls``."""
    if pn in nodes_map:
        return nodes_map[pn] is gn
    for value in nodes_map.values():
        if value is gn:
            return False
    if pn in inputs:
        nodes_map[pn] = gn
        return True
    expected, found = pn._args, gn._args
    if gn._op != pn._op or gn._target != pn._target or gn._kwargs or len(expected) != len(found):
        return False
    nodes_map[pn] = gn
    for a, b in zip(expected, found, strict=True):
        if type(a) is Node:
            if _is_node(b):
                if not _match_tree(a, b, nodes_map, inputs):
                    return False
            elif a not in inputs:
                return False
            elif a not in nodes_map:
                nodes_map[a] = b
            elif not bool(nodes_map[a] == b):
                return False
        elif _is_node(b) or type(a) is not type(b) or not bool(b == a):
            return False
    return True


def _match_input(pn: Node, gn: Node, nodes_map: dict[Node, Node]) -> bool:
    """What ``_match_nodes`` comes to for an input of the pattern."""
    if pn in nodes_map:
        return nodes_map[pn] is gn
    for value in nodes_map.values():
        if value is gn:
            return False
    nodes_map[pn] = gn
    return True


def _matched_nodes(match: InternalMatch) -> list[Node]:
    boundary = _BOUNDARY_OPS
    return [gn for pn, gn in match.nodes_map.items() if pn.op not in boundary]


def _attribute_of(node: Node) -> Any:
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _comparable_arguments(pn: Node, gn: Node) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """The arguments of two calls, in the same order; ``None`` when they were spelt in ways that cannot be compared."""
    if len(pn.args) == len(gn.args):
        if not pn.kwargs and not gn.kwargs:
            return pn.args, gn.args
        if list(pn.kwargs) == list(gn.kwargs):
            return [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
    if pn.op == "call_function" and isinstance(pn.target, torch._ops.OpOverload):
        parameters = pn.target._schema.arguments
        return _by_schema(pn, parameters), _by_schema(gn, parameters)
    return None


def _by_schema(node: Node, parameters: Any) -> list[Any]:
    values = []
    for position, parameter in enumerate(parameters):
        if parameter.name in node.kwargs:
            values.append(node.kwargs[parameter.name])
        elif not parameter.kwarg_only and position < len(node.args):
            values.append(node.args[position])
        else:
            values.append(parameter.default_value)
    return values


def _route(anchor: Node, earlier: list[Node]) -> list[Node] | None:
    """A path of pattern nodes from one that is matched with the earlier anchors, along users, to ``anchor``.

    It does not begin at an input where that can be had, since inputs such as weights may have users all over a graph.
    """
    matched: set[Node] = set()
    pending = list(earlier)
    while pending:
        node = pending.pop()
        if node not in matched:
            matched.add(node)
            pending.extend(node.all_input_nodes)
    best: list[Node] | None = None
    paths = [[anchor]]
    seen = {anchor}
    while paths:
        path = paths.pop(0)
        start = path[0]
        if start in matched:
            if start.op != "placeholder":
                return path
            best = best or path
            continue
        for used in start.all_input_nodes:
            if used not in seen:
                seen.add(used)
                paths.append([used, *path])
    return best


def _along(route: list[Node], nodes_map: dict[Node, Node], candidates: set[Node]) -> list[Node]:
    """The candidates that can be reached from what the first node of ``route`` matches, in the order of the graph."""
    start = nodes_map.get(route[0])
    if not _is_node(start):
        return []
    reached: dict[Node, None] = {start: None}  # type: ignore[dict-item]
    for step in route[1:]:
        reached = {
            user: None
            for node in reached
            for user in node.users
            if step is route[-1] or (user.op == step.op and user.target == step.target) or step.op == "get_attr"
        }
    return sorted(node for node in reached if node in candidates)
