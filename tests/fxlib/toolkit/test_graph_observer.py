"""What a pass did to a graph, and the types of what a graph takes out of sequences."""

import copy
import operator
from typing import NamedTuple

import pytest
import torch

import fxlib
from fxlib.passes.annotate_getitem_nodes import annotate_getitem_nodes
from fxlib.passes.graph_transform_observer import GraphTransformObserver

from .both import assert_same


def negated(x):
    return torch.neg(x) + 1


def relu_for_neg(gm):
    fxlib.replace_pattern(gm, lambda x: torch.neg(x), lambda x: torch.relu(x))
    return "done"


def test_nodes_and_pictures(tmp_path):
    gm = fxlib.symbolic_trace(negated)
    observer = GraphTransformObserver(gm, "relu_for_neg", log_url=str(tmp_path))
    assert observer.apply_gm_pass(relu_for_neg) == "done"
    assert (observer.created_nodes, observer.erased_nodes) == ({"relu"}, {"neg"})
    assert set(observer.name_to_node) == {"x", "relu", "add", "output"}
    number = observer.get_current_pass_count()
    before = (tmp_path / f"pass_{number}_relu_for_neg_input_graph.dot").read_text()
    after = (tmp_path / f"pass_{number}_relu_for_neg_output_graph.dot").read_text()
    assert "neg [fillcolor=yellow]" in before and "relu" not in before.replace("relu_for_neg", "")
    assert "relu [fillcolor=green]" in after
    (source,) = next(n for n in gm.graph.nodes if n.name == "relu").meta["from_node"]
    assert (source.name, source.pass_name) == ("neg", "relu_for_neg")
    assert source._get_action_string() == "REPLACE+CREATE".lower()
    assert not gm._create_node_hooks and not gm._erase_node_hooks and not gm._replace_hooks


def test_a_pass_that_does_nothing_is_not_drawn(tmp_path):
    gm = fxlib.symbolic_trace(negated)
    assert GraphTransformObserver(gm, "nothing", log_url=str(tmp_path)).apply_graph_pass(len_of) == 4
    assert not list(tmp_path.iterdir())


def len_of(graph):
    return len(graph.nodes)


def test_hooks_go_when_the_pass_fails():
    gm = fxlib.symbolic_trace(negated)
    with pytest.raises(ZeroDivisionError):
        GraphTransformObserver(gm, "fails").apply_gm_pass(lambda gm: 1 / 0)
    assert not gm._create_node_hooks


def test_copies_that_the_pass_makes_are_watched():
    gm = fxlib.symbolic_trace(negated)
    observer = GraphTransformObserver(gm, "copies")

    def on_a_copy(gm):
        copied = copy.deepcopy(gm)
        relu_for_neg(copied)
        return copied

    copied = observer.apply_gm_pass(on_a_copy)
    assert observer.copied_gms == [copied]
    assert (observer.created_nodes, observer.erased_nodes) == ({"relu"}, {"neg"})
    assert not copied._create_node_hooks and not copied._deepcopy_hooks and not gm._deepcopy_hooks


class Point(NamedTuple):
    x: int
    y: torch.Tensor


def test_types_of_elements_are_those_of_torch_fx():
    def scenario(side):
        graph = side().Graph()
        for kind in (tuple[int, str], list[int], Point, tuple[int, ...], dict[str, int], list, None, int | None):
            sequence = graph.placeholder("x", type_expr=kind)
            taken = [graph.call_function(operator.getitem, (sequence, index)) for index in (0, 1, -1)]
            side("passes.annotate_getitem_nodes").annotate_getitem_nodes(graph)
            side.report(kind, [node.type for node in taken])

    assert_same(scenario, at_least=8)


def test_slices_nested_sequences_and_indices_out_of_range():
    graph = fxlib.Graph()
    nested = graph.placeholder("x", type_expr=tuple[tuple[int, str], float])
    inner = graph.call_function(operator.getitem, (nested, 0))
    innermost = graph.call_function(operator.getitem, (inner, 1))
    beyond = graph.call_function(operator.getitem, (nested, 2))
    part = graph.call_function(operator.getitem, (nested, slice(0, 1)))
    listed = graph.placeholder("y", type_expr=list[int])
    some = graph.call_function(operator.getitem, (listed, slice(0, 2)))
    annotate_getitem_nodes(graph)
    assert (inner.type, innermost.type, beyond.type, part.type) == (tuple[int, str], str, None, None)
    assert some.type == list[int]
