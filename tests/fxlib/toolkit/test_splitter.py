"""Splitting for an accelerator, against torch.fx: the nodes that it takes, the parts, the previews, the log."""

import contextlib
import io
import itertools
import random

import pytest
import torch

from .both import assert_same


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.last = torch.nn.Linear(4, 4)
        self.p = torch.nn.Parameter(torch.ones(4))
        for parameter in self.parameters():
            torch.nn.init.ones_(parameter)

    def forward(self, a, b):
        wave = torch.sin(a) + torch.cos(a)
        rows = wave.size(0)
        middle = self.inner(wave.reshape(rows, 4)) + self.p
        return self.last(torch.tanh(torch.relu(middle)) + b), rows


SUPPORTED = [
    ["torch.sin", "torch.cos", "torch.relu", "torch.tanh", "torch.nn.modules.linear.Linear"],
    ["_operator.add", "size", "reshape"],
    ["size"],
    [],
]
SETTINGS = [{}, {"allow_non_tensor": True}, {"min_acc_module_size": 2}, {"skip_fusion": True, "allow_non_tensor": True}]


def splitter(side, gm, inputs, names, **settings):
    """A splitter of either library for a backend that lowers nothing with a ``tanh`` in it."""
    base, support = side("passes.splitter_base"), side("passes.operator_support")

    class Splitter(base._SplitterBase):
        def _lower_model_to_backend(self, mod, inputs):
            if mod.graph.find_nodes(op="call_function", target=torch.tanh):
                raise RuntimeError("no tanh")
            return mod

        def _find_culprit(self, mod, inputs):
            return "tanh\n"

    return Splitter(gm, inputs, support.OperatorSupport(dict.fromkeys(names)), base._SplitterSettingBase(**settings))


def names(nodes):
    return sorted(node.name for node in nodes)


@pytest.mark.parametrize("supported", SUPPORTED, ids=["functions", "sizes", "size", "nothing"])
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "any-value", "large-parts", "no-groups"])
def test_split(supported, settings):
    inputs = (torch.ones(2, 4), torch.ones(2, 4))

    def scenario(side):
        gm = side().symbolic_trace(Model())
        found = splitter(side, gm, inputs, supported, **settings)
        side.report(names(found.acc_nodes), sorted((node.name, names(group)) for node, group in found.fusions.items()))
        with contextlib.redirect_stdout(io.StringIO()):
            side.report(found.node_support_preview())
            side.report(found.split_preview())
            result = found.generate_split_results()
        side.report(result.split_module.code, found.tags, sorted(found.get_node_submodule_map().items()))
        for name, part in result.split_module.named_children():
            side.report(name, part.code, result.submodule_inputs[name])
        side.report(result.split_module(*inputs))
        with pytest.raises(side("passes.splitter_base").FxNetSplitterInternalError, match="already tagged"):
            found()

    assert_same(scenario, at_least=6)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    inputs = tuple(torch.ones(8) * (index + 1) for index in range(3))

    def scenario(side):
        choose = random.Random(seed)
        some = choose.sample(["torch.add", "torch.mul", "torch.relu", "torch.neg", "torch.sigmoid"], 3)
        graph = side().Graph()
        values = [graph.placeholder(f"x{i}") for i in range(3)]
        for _ in range(10 + 3 * seed):
            function = choose.choice([torch.add, torch.mul, torch.relu, torch.neg, torch.sigmoid])
            count = 2 if function in (torch.add, torch.mul) else 1
            values.append(graph.call_function(function, tuple(choose.choices(values[-9:], k=count))))
            if choose.random() < 0.2:  # a size, and something that takes it
                rows = graph.call_method("size", (values[-1], 0))
                values.append(graph.call_method("reshape", (choose.choice(values[-9:]), rows)))
        graph.output(tuple(node for node in graph.nodes if node.op != "placeholder" and not node.users))
        gm = side().GraphModule({}, graph)
        found = splitter(side, gm, inputs, [*some, "size"], allow_non_tensor=seed % 2 == 0)
        with contextlib.redirect_stdout(io.StringIO()):
            split = found()
        side.report([(name, part.code) for name, part in split.named_children()])
        side.report(split.code, [value.tolist() for value in split(*inputs)])

    assert_same(scenario, at_least=2)


def test_values_move_to_where_they_are_used():
    """Random subgraphs of nodes that are half of them no tensors: the same nodes end in the same subgraphs."""

    def scenario(side):
        utils, base = side("passes.split_utils"), side("passes.splitter_base")
        for seed in range(300):
            choose = random.Random(seed)
            graph = side().Graph()
            nodes = [graph.placeholder("x")]
            for _ in range(choose.randint(3, 14)):
                used = choose.sample(nodes, min(len(nodes), choose.randint(1, 2)))
                nodes.append(graph.call_function(torch.add, tuple(used)))
                nodes[-1].meta["type"] = choose.choice([int, torch.Tensor])
            graph.output(tuple(choose.sample(nodes, 2)))
            calls = nodes[1:]
            cuts = [0, *sorted(choose.choices(range(len(calls) + 1), k=3)), len(calls)]
            parts = [
                base.Subgraph(is_acc=choose.random() < 0.75, nodes=calls[start:end])
                for start, end in itertools.pairwise(cuts)
            ]
            with contextlib.redirect_stdout(io.StringIO()):
                utils.move_non_tensor_nodes_on_boundary(parts)
            side.report(seed, [(part.is_acc, names(part.nodes)) for part in parts])

    assert_same(scenario, at_least=300)


def test_extend_a_part_backwards():
    def scenario(side):
        gm = side().symbolic_trace(Model())
        inputs = (torch.ones(2, 4), torch.ones(2, 4))
        found = splitter(side, gm, inputs, ["torch.relu", "torch.tanh", "_operator.add"])
        with contextlib.redirect_stdout(io.StringIO()):
            found()
        for tag in found.tags:
            side.report(tag, names(found.find_parent_nodes_of_subgraph(tag)))
        last = [tag for tag in found.tags if "acc" in tag][-1]
        for node in gm.graph.nodes:
            if node.name == "tanh":
                node.tag = "_run_on_cpu_0"
        found.extend_acc_subgraph(last)
        side.report([(node.name, getattr(node, "tag", None)) for node in gm.graph.nodes])

    assert_same(scenario, at_least=3)


def test_the_log_of_decisions(tmp_path):
    def scenario(side):
        base = side("passes.splitter_base")
        gm = side().symbolic_trace(Model())
        side("passes.shape_prop").ShapeProp(gm).propagate(torch.ones(2, 4), torch.ones(2, 4))
        support = side("passes.operator_support").OperatorSupport(dict.fromkeys(["size", "reshape", "torch.sin"]))
        finder = base.FxNetAccNodesFinder(gm, support, allow_non_tensor=False)
        side.report(names(finder()), finder.tracker.to_dict())
        prefix = str(tmp_path / side.package)
        tracker = base.NodeEventTracker(3, prefix)
        first, second, *_ = gm.graph.nodes
        for event in ((first, "a|b"), (second, "c|d", first), (second, "e|f")):
            tracker.add(*event)
        tracker.dump()
        for suffix in (base.ALL_SUFFIX, base.NODES_SUFFIX):
            with open(prefix + suffix) as file:
                side.report(file.read())

    assert_same(scenario, at_least=3)


def test_limits_and_drawings(tmp_path, monkeypatch):
    """What torch.fx needs another package for, and what it does with modules that compute nothing."""
    import fxlib
    from fxlib.passes.operator_support import OperatorSupport
    from fxlib.passes.splitter_base import FxNetSplitterInternalError, _SplitterBase, _SplitterSettingBase

    monkeypatch.chdir(tmp_path)
    inputs = (torch.ones(2, 4), torch.ones(2, 4))
    support = OperatorSupport({"torch.relu": None})
    found = _SplitterBase(fxlib.symbolic_trace(Model()), inputs, support, _SplitterSettingBase(max_acc_splits=2))
    found.node_support_preview(dump_graph=True)
    found.split_preview(dump_graph=True)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "node_support.dot",
        "preview.dot",
        "preview__run_on_acc_1.dot",
    }
    assert "green" in (tmp_path / "node_support.dot").read_text()
    with pytest.raises(ValueError, match="max_acc_splits"):
        found.generate_split_results()
    assert not found._find_culprit(found.module, inputs).startswith("\n")

    relu, *_ = found.module.graph.find_nodes(op="call_function", target=torch.relu)
    add = relu.args[0]
    found.deps[add] = {relu}
    with pytest.raises(FxNetSplitterInternalError, match=r"wait for each other.*relu"):
        found.put_nodes_into_subgraphs()

    nothing = _SplitterBase(fxlib.symbolic_trace(lambda x: x), inputs[:1], support, _SplitterSettingBase())
    assert torch.equal(nothing()(inputs[0]), inputs[0])
