"""Random sequences of edits: the graph stays well-formed, uses and definitions agree, order and side table are right,
and the generated code still computes what the nodes say."""

import copy
import itertools
import operator
import pickle

import pytest
import torch
import torch.fx
from hypothesis import given, settings
from hypothesis import strategies as st

import fxlib

KINDS = st.sampled_from(
    [
        "append",
        "insert",
        "insert",
        "after",
        "erase",
        "replace",
        "filter",
        "swap",
        "args",
        "nested",
        "move",
        "find",
        "retarget",
        "argument",
        "keyword",
        "sweep",
        "refused",
        "copied",
        "deep copied",
    ]
)
EDITS = st.lists(st.tuples(KINDS, st.integers(0, 60), st.integers(0, 60)), max_size=40)
FUNCTIONS = (operator.add, operator.mul, operator.sub)


def start(library):
    graph = library.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output(graph.call_function(operator.add, (x, y)))
    return graph


def before(graph, node):
    """Nodes with a value that stand before ``node``."""
    values = []
    for other in graph.nodes:
        if other is node:
            break
        values.append(other)
    return values


def edit(graph, kind, i, j):
    """One edit of ``graph``; returns the graph to go on with."""
    nodes = list(graph.nodes)
    calls = [node for node in nodes if node.op == "call_function"]
    output = nodes[-1]
    if kind == "append":
        with graph.inserting_before(output):
            graph.call_function(FUNCTIONS[j % 3], (nodes[i % (len(nodes) - 1)], j))
    elif kind in ("insert", "after"):
        anchor = nodes[2 + i % (len(nodes) - 2)]
        if kind == "insert":
            values = before(graph, anchor)
            with graph.inserting_before(anchor):
                graph.call_function(FUNCTIONS[i % 3], (values[j % len(values)], values[i % len(values)]))
        elif anchor is not output:
            with graph.inserting_after(anchor):
                graph.call_function(FUNCTIONS[i % 3], (anchor, 2))
    elif kind == "find":
        found = graph.find_nodes(op="call_function", target=FUNCTIONS[i % 3])
        assert found == [node for node in nodes if node.target is FUNCTIONS[i % 3]]
    elif kind == "copied":
        made, seen = type(graph)(), {}
        made.output(made.graph_copy(graph, seen))
        assert list(seen) == nodes[:-1] and list(seen.values()) == list(made.nodes)[:-1]
        return made
    elif kind == "deep copied":
        return copy.deepcopy(graph)
    elif kind == "sweep":
        sweep(graph, i % 4)
    elif calls:
        node = calls[i % len(calls)]
        values = before(graph, node)
        other = values[j % len(values)]
        if kind == "erase" and not node.users:
            graph.erase_node(node)
        elif kind == "replace":
            node.replace_all_uses_with(other)
        elif kind == "filter":
            node.replace_all_uses_with(other, lambda user: len(user.name) % 2 == 0)
        elif kind == "swap" and node.all_input_nodes:
            node.replace_input_with(node.all_input_nodes[0], other)
        elif kind == "args":
            node.args = (other, values[0])
        elif kind == "nested":
            node.target = operator.getitem
            node.args = ([other, (values[0], {"k": values[-1]})], j % 1)
            node.target = operator.getitem
        elif kind == "retarget" and node.target in FUNCTIONS:
            node.target = FUNCTIONS[j % 3]
        elif kind == "argument" and node.target in FUNCTIONS:
            node.update_arg(i % len(node.args), other)
            node.insert_arg(j % 2, values[0])
            node.args = node.args[:2]
        elif kind == "keyword" and node.target in FUNCTIONS:
            node.update_kwarg("b", other)
            node.kwargs = {} if i % 8 else node.kwargs
        elif kind == "refused" and node.users:
            with pytest.raises(RuntimeError, match="still had"):
                graph.erase_node(node)
        elif kind == "move" and node.prev.op == "call_function" and node.prev not in node.all_input_nodes:
            node.prev.prepend(node)
    return graph


def sweep(graph, rest):
    """Erase and insert while iterating: before, at and behind the node that the loop is at."""
    met, inserted = [], 0
    for node in graph.nodes:
        met.append(node.name)
        if node.op != "call_function":
            continue
        if not node.users and len(node.name) % 4 == rest:
            graph.erase_node(node)
        elif inserted < 4 and len(met) % 4 == rest:
            inserted += 1
            with graph.inserting_after(node) if inserted % 2 else graph.inserting_before(node):
                graph.call_function(operator.add, (node if inserted % 2 else 1, inserted))
    graph.swept = met


def check(graph):
    graph.lint()
    nodes = list(graph.nodes)
    assert len(graph.nodes) == len(nodes) and list(reversed(graph.nodes)) == nodes[::-1]
    assert sorted(nodes) == nodes
    assert all(a < b and b > a and a <= b and not b <= a for a, b in itertools.pairwise(nodes))
    uses = {node: [] for node in nodes}
    for node in nodes:
        used = []
        fxlib.map_arg((node.args, node.kwargs), used.append)
        assert node.all_input_nodes == list(dict.fromkeys(used))
        for each in dict.fromkeys(used):
            uses[each].append(node)
    for node in nodes:
        assert set(node.users) == set(uses[node])
    for target in (*FUNCTIONS, operator.getitem):
        assert graph.find_nodes(op="call_function", target=target) == [n for n in nodes if n.target is target]


@settings(max_examples=60, deadline=None)
@given(EDITS)
def test_a_graph_survives_any_edits(edits):
    graph, oracle = start(fxlib), start(torch.fx)
    if len(edits) % 2:
        graph.find_nodes(op="output")
    for kind, i, j in edits:
        graph, oracle = edit(graph, kind, i, j), edit(oracle, kind, i, j)
        assert getattr(graph, "swept", None) == getattr(oracle, "swept", None)
    check(graph)
    assert str(graph) == str(oracle)
    assert [list(map(str, n.users)) for n in graph.nodes] == [list(map(str, n.users)) for n in oracle.nodes]
    module, reference = fxlib.GraphModule({}, graph), torch.fx.GraphModule({}, oracle)
    assert module.code == reference.code
    assert module._lineno_map == reference._lineno_map
    assert _run(module) == _run(reference)
    assert _traced(fxlib, module) == _traced(torch.fx, reference)
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        check(other)
        assert str(other) == str(graph)
    assert graph.eliminate_dead_code() == oracle.eliminate_dead_code()
    check(graph)
    assert str(graph) == str(oracle)


def _run(module):
    try:
        return module(3, 5)
    except Exception as error:
        return type(error)


def _traced(library, module):
    try:
        return library.symbolic_trace(module).code
    except Exception as error:
        return type(error)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=300), st.integers(0, 3))
def test_order_is_kept_under_any_insertions(places, spread):
    """Insertions that crowd one spot as well as scattered ones."""
    graph = fxlib.Graph()
    expected = [graph.placeholder("x")]
    for forwards, place in places:
        at = place % len(expected) if spread else len(expected) // 2
        anchor = expected[at]
        with graph.inserting_after(anchor) if forwards else graph.inserting_before(anchor):
            node = graph.call_function(torch.neg, (1,))
        expected.insert(at + 1 if forwards else at, node)
    assert list(graph.nodes) == expected
    assert sorted(expected[::-1]) == expected


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("insert", "append", "prepend", "erase", "compare", "sort")), st.integers(0), st.integers(0)
    ),
    max_size=200,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans())
def test_order_is_right_whenever_it_is_asked_for(steps, one_spot):
    """Labels are made by comparisons, so these stand between the edits; with ``one_spot`` the edits crowd."""
    graph = fxlib.Graph()
    expected = [graph.placeholder(f"x{i}") for i in range(6)]
    for kind, i, j in steps:
        at, other = (len(expected) // 2 if one_spot else i % len(expected)), j % len(expected)
        node = expected[at]
        if kind == "insert":
            with graph.inserting_before(node):
                expected.insert(at, graph.call_function(torch.neg, (1,)))
        elif kind in ("append", "prepend") and at != other:
            moved = expected.pop(other)
            getattr(node, kind)(moved)
            expected.insert(expected.index(node) + (kind == "append"), moved)
        elif kind == "erase" and len(expected) > 3:
            graph.erase_node(expected.pop(at))
            assert isinstance(node < expected[0], bool)  # erased, it still has a place
        elif kind == "compare":
            second = expected[other]
            assert (node < second, node <= second, node > second, node >= second) == (
                at < other,
                at <= other,
                at > other,
                at >= other,
            )
        elif kind == "sort":
            assert sorted(expected[::-1]) == expected
    assert list(graph.nodes) == expected
    assert sorted(expected[::-1]) == expected
    assert min(expected) is expected[0] and max(expected) is expected[-1]


def test_a_thousand_insertions_at_one_spot_each_compared():
    """Every insertion is labelled before the next, so the labels run out again and again and are spread."""
    graph = fxlib.Graph()
    x = graph.placeholder("x")
    last = graph.output(x)
    nodes = []
    for _ in range(1000):
        with graph.inserting_before(last):
            node = graph.call_function(torch.neg, (x,))
        assert x < node < last
        nodes.insert(0, node)
        last = node
    assert sorted(nodes[::-1]) == nodes


@pytest.mark.parametrize("library", [fxlib, torch.fx])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_node_and_something_else_have_no_order(library, fresh):
    graph = library.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    assert fresh or x < y
    with pytest.raises(TypeError, match="not supported between instances of 'Node' and 'int'"):
        x < 1  # noqa: B015
    with pytest.raises(TypeError, match="'>='"):
        x >= "x"  # noqa: B015


def test_ten_thousand_insertions_at_one_spot():
    graph = fxlib.Graph()
    x = graph.placeholder("x")
    output = graph.output(x)
    with graph.inserting_before(output):
        first = [graph.call_function(torch.neg, (x,)) for _ in range(5000)]
    with graph.inserting_after(x):
        second = [graph.call_function(torch.neg, (x,)) for _ in range(5000)]
    with graph.inserting_before(first[2500]):
        third = [graph.call_function(torch.neg, (x,)) for _ in range(5000)]
    expected = [x, *second[::-1], *first[:2500], *third, *first[2500:], output]
    assert list(graph.nodes) == expected
    assert sorted(expected[::-1]) == expected
