"""Metadata of nodes to come, against torch.fx; and shared with torch's tracers."""

import torch
import torch.fx.traceback

import fxlib
import fxlib.traceback as fx_traceback

from .both import assert_same


def test_state():
    def scenario(side):
        tb = side("traceback")
        graph = side().Graph()
        x = graph.placeholder("x")
        node = graph.call_function(torch.add, (x, x))
        node.meta["q"] = 1
        graph.output(node)

        def state():
            side.report(tb.get_current_meta(), tb.current_meta, tb.get_current_replay_node())
            side.report(tb.has_preserved_node_meta(), tb._is_preserving_node_seq_nr())

        state()
        with tb.preserve_node_meta():
            tb.set_stack_trace(["a", "b"])
            side.report(tb.format_stack())
            with tb.set_current_meta(x, "p"):
                state()
            with tb.set_current_meta(node, "p"):
                state()
            tb.set_grad_fn_seq_nr(3)
            tb.set_grad_fn_seq_nr(4)
            state()
            tb.reset_grad_fn_seq_nr()
            state()
            tb.reset_grad_fn_seq_nr()
            side.attempt(tb.reset_grad_fn_seq_nr)
            with tb.preserve_node_meta(False), tb._preserve_node_seq_nr(), tb.set_current_replay_node(node):
                tb.set_stack_trace(["ignored"])
                state()
            tb.get_current_meta().clear()
        state()
        with tb.annotate({"a": 1}):
            with tb.annotate({"a": 2, "b": 3}):
                state()
            state()
        side.report(tb.annotate_fn({"q": 1})(lambda: dict(tb.get_current_meta()))())
        state()

    assert_same(scenario, at_least=20)


def test_sources():
    def scenario(side):
        tb = side("traceback")
        graph = side().Graph()
        x = graph.placeholder("x")
        node = graph.call_function(torch.add, (x, x))
        graph.output(node)
        create, replace = tb.NodeSourceAction.CREATE, tb.NodeSourceAction.REPLACE
        first = tb.NodeSource(node, "p", [create, replace])
        node.meta["from_node"] = [first]
        node.meta["custom"] = {"a": 1}
        second = tb.NodeSource(node, "q", create)
        for source in (first, second, tb.NodeSource(None), tb.NodeSource(node, "z")):
            described = {key: value for key, value in source.to_dict().items() if key not in ("graph_id", "from_node")}
            side.report(source, described, source.print_readable(1))
        again = tb.NodeSource._from_dict(second.to_dict())
        side.report(again == second, hash(again) == hash(second), again == first, tb.NodeSource._from_dict(None))
        side.report(sorted(tb.get_graph_provenance_json(graph)))
        side.report(tb._get_custom_metadata(side().GraphModule({}, graph)))

    assert_same(scenario, at_least=7)


def test_annotations_reach_torch_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            with fx_traceback.annotate({"stage": 1}):
                x = x + 1
            return x * 2

    with fx_traceback.preserve_node_meta():
        exported = torch.export.export(Model(), (torch.ones(2),)).module()
    calls = [node for node in exported.graph.nodes if node.op == "call_function"]
    stages = {node.name: node.meta.get("custom", {}).get("stage") for node in calls}
    assert stages == {"add": 1, "mul": None}


def test_what_an_interpreter_runs_is_known_to_make_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    gm = fxlib.symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = f"made by {node.name}"
    with fx_traceback.preserve_node_meta():
        captured = make_fx(fxlib.Interpreter(gm).run)(torch.ones(2))
    traces = [node.meta.get("stack_trace") for node in captured.graph.nodes if node.op == "call_function"]
    assert traces == ["made by relu", "made by add"]
