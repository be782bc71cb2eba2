"""Random patterns in random graphs: the matcher finds what torch.fx finds."""

import random

import pytest
import torch

from .both import Side, assert_same

UNARY = [torch.relu, torch.neg]
BINARY = [torch.add, torch.mul]
SETTINGS = [
    {},
    {"ignore_literals": True},
    {"remove_overlapping_matches": False},
    {"match_placeholder": True},
]


def random_graph(side, choose, size, returned, literals):
    """A graph in which every node but the inputs is used, so that it can be a pattern too."""
    graph = side().Graph()
    values = [graph.placeholder(f"x{i}") for i in range(2)]
    for _ in range(size):
        near = values[-5:]
        kind = choose.random()
        if kind < 0.35:
            values.append(graph.call_function(choose.choice(UNARY), (choose.choice(near),)))
        elif kind < 0.5:
            other = choose.choice(literals) if choose.random() < 0.7 else choose.choice(near)
            values.append(graph.call_function(torch.add, (choose.choice(near), other)))
        elif kind < 0.6:
            values.append(graph.call_function(torch.cat, ([choose.choice(near), choose.choice(near)],), {"dim": 0}))
        else:
            pair = (choose.choice(near), choose.choice(near))
            values.append(graph.call_function(choose.choice(BINARY), pair))
    open_ends = [value for value in values[2:] if not value.users]
    while len(open_ends) > returned:
        open_ends.append(graph.call_function(torch.add, (open_ends.pop(0), open_ends.pop(0))))
    graph.output(tuple(open_ends))
    for value in values[:2]:
        if not value.users:
            graph.erase_node(value)
    return graph


def matched(side, seed, returned, settings):
    """The matches of a random pattern in a random graph, and the graph."""
    choose = random.Random(seed)
    graph = random_graph(side, choose, 30, 4, [1, 2])
    pattern = random_graph(side, choose, choose.randint(1, 3), returned, [1])
    return side("passes.utils.matcher_utils").SubgraphMatcher(pattern, **settings).match(graph), graph


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_random_patterns_of_one_value(settings):
    found = 0

    def scenario(side):
        nonlocal found
        for seed in range(250):
            try:
                matches, _ = matched(side, seed, 1, settings)
            except KeyError:
                side.report("an input that nothing stands for, as constants may differ")
            else:
                found += len(matches)
                side.report(seed, matches)

    assert_same(scenario, at_least=250)
    assert found > 10


def test_random_patterns_of_two_values():
    settings = {"remove_overlapping_matches": False}
    theirs, ours = Side("torch.fx"), Side("fxlib")
    found = 0
    for seed in range(200):
        try:
            expected, graph = matched(theirs, seed, 2, settings)
        except KeyError:
            # torch.fx, where one of several anchors is nowhere to be found.
            expected, graph = [], None
        # torch.fx also returns some that cannot be fused.
        expected = [match for match in expected if not leaves_and_returns(graph, match)]
        matches, _ = matched(ours, seed, 2, settings)
        assert list(map(by_name, matches)) == list(map(by_name, expected)), seed
        found += len(matches)
    assert found > 200


def by_name(match):
    return {pn.name: getattr(gn, "name", gn) for pn, gn in match.nodes_map.items()}


def leaves_and_returns(graph, match):
    """Whether something outside the match uses a value of it and is used, however indirectly, by another."""
    inside = {gn for pn, gn in match.nodes_map.items() if pn.op != "placeholder"}
    depends = set()
    for node in graph.nodes:
        if node not in inside and any(used in inside or used in depends for used in node.all_input_nodes):
            depends.add(node)
    return any(used in depends for node in inside for used in node.all_input_nodes)


def test_a_match_found_twice_is_the_first_in_the_order_of_the_graph():
    def scenario(side):
        graph = side().symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(torch.relu(x))))).graph
        pattern = side().symbolic_trace(lambda x: torch.relu(torch.relu(x))).graph
        for overlapping in (True, False):
            matcher = side("passes.utils.matcher_utils").SubgraphMatcher(
                pattern, remove_overlapping_matches=not overlapping
            )
            side.report([match.returning_nodes for match in matcher.match(graph)])

    assert_same(scenario, at_least=2)
