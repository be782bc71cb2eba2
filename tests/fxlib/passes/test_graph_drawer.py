"""Pictures: valid DOT for any name, clusters, failure marks, changes, and large graphs that stay small."""

import torch
from torch import nn

import fxlib
from fxlib.passes.fuse_conv_bn import fuse_conv_bn
from fxlib.passes.graph_drawer import ADDED, FAILED, REMOVED, FxGraphDrawer, draw_change
from fxlib.shapes import propagate


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))

    def forward(self, x):
        return (self.body(x) + x).clamp(min=0.0, max=float("inf"))


def drawn(*args, **kwargs):
    graph_module = fxlib.symbolic_trace(nn.Sequential(Block(), Block()).eval())
    propagate(graph_module, torch.empty(1, 3, 4, 4))
    return graph_module, FxGraphDrawer(graph_module, "net", *args, **kwargs).get_dot_graph()


def test_every_node_and_edge_is_drawn():
    graph_module, dot = drawn()
    source = dot.to_string()
    for node in graph_module.graph.nodes:
        assert f"name=%{node.name}" in source
        for user in node.users:
            assert f"{node.name} -> {user.name}" in source or f'"{node.name}" -> "{user.name}"' in source
    assert "cluster_0.body" in source and "weight: float32[3, 3, 1, 1]" in source and "float32 [1, 3, 4, 4]" in source
    assert "min=0.0" in source


def test_options_change_the_picture():
    assert "weight" not in drawn(ignore_parameters_and_buffers=True)[1].source
    assert "subgraph" not in drawn(clusters=False)[1].source
    assert "test_graph_drawer.py" in drawn(parse_stack_trace=True)[1].source
    assert "shape=box" in drawn(dot_graph_shape="box")[1].source


def test_failure_is_marked():
    _, dot = drawn(failed="add", reason='bool() of a traced value: "x > {0}"')
    assert FAILED in dot.source and "traced value" in dot.source


def test_svg_with_hostile_names(tmp_path):
    graph_module, _ = drawn()
    reason = '<script>alert("x")</script> {a|b} \\N'
    dot = FxGraphDrawer(graph_module, "a<b>", failed="add", reason=reason).get_dot_graph()
    svg = dot.create_svg().decode()
    assert svg.count('<g id="node') == len(graph_module.graph.nodes) and "<script>" not in svg
    assert dot.write_svg(str(tmp_path / "a.svg")) and (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_change_colours_what_came_and_went():
    before = fxlib.symbolic_trace(Block().eval())
    after = fuse_conv_bn(fxlib.symbolic_trace(Block().eval()))
    source = draw_change(before, after).source
    assert source.count(REMOVED) == 1 and source.count(ADDED) == 0 and "cluster_before" in source


def test_submodules_that_are_graphs_have_pictures_of_their_own():
    inner = fxlib.symbolic_trace(Block())
    outer = nn.Module()
    outer.inner = inner
    graph = fxlib.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    drawer = FxGraphDrawer(fxlib.GraphModule(outer, graph), "outer")
    assert set(drawer.get_all_dot_graphs()) == {"outer", "outer_inner"}
    assert "clamp" in drawer.get_submod_dot_graph("inner").source


def test_a_thousand_nodes_are_collapsed_and_quick():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                *[nn.Sequential(*[nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(25)]) for _ in range(20)]
            )

        def forward(self, x):
            return self.layers(x)

    graph_module = fxlib.symbolic_trace(Deep())
    assert len(graph_module.graph.nodes) > 1000
    dot = FxGraphDrawer(graph_module, "deep").get_dot_graph()
    svg = dot.create_svg().decode()
    assert svg.count('<g id="node') <= 300 and " nodes" in svg


def test_a_graph_of_many_edges_is_collapsed_further():
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Linear(1, 1)
            self.block = nn.Sequential(*[nn.Sequential(nn.Linear(i, 1)) for i in range(1, 60)])

        def forward(self, x):
            found = [self.stem(x)]
            for layer in self.block:
                found.append(layer(torch.cat(found, 1)))
            return found[-1]

    graph_module = fxlib.symbolic_trace(Dense())
    nodes = list(graph_module.graph.nodes)
    assert len(nodes) <= 300 and sum(len(n.all_input_nodes) for n in nodes) > 1500
    source = FxGraphDrawer(graph_module, "dense").get_dot_graph().source
    assert source.count("->") <= 900 and "block" in source
