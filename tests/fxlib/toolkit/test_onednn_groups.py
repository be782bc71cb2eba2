"""experimental.optimization by groups of layers, and experimental.debug."""

import pdb

import pytest
import torch
import torch.fx.experimental.optimization as theirs
from torch import nn

import fxlib
from fxlib.experimental import optimization as ours
from fxlib.experimental.debug import set_trace


class Model(nn.Module):
    """Three groups: everything up to the sigmoid, and one layer each."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.again = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.head, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y = torch.sigmoid(self.pool(y + self.again(y) * 2))
        return self.last(self.head(torch.tanh(y).mean((2, 3))).sin())


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture
def image():
    return torch.rand(2, 3, 12, 12)


def layers(traced):
    return {str(n.target) for n in traced.graph.nodes if n.op == "call_module"}


def optimized(library, model, heuristic):
    return library.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": heuristic}})


def test_groups_are_those_of_torch_fx(model, image):
    seen = []
    for library in (theirs, ours):
        groups = []

        def judge(group, groups=groups):
            groups.append([n.name for n in group.nodes])
            return len(groups) != 2

        result = optimized(library, model, judge)
        torch.testing.assert_close(result(image), model(image))
        seen.append(groups)
    assert seen[0] == seen[1]
    assert [len(group) for group in seen[1]] == [7, 1, 1]
    assert layers(result) == {"conv_packed", "again_packed", "pool", "head", "last_packed"}


def test_heuristics(model, image):
    by_length = optimized(ours, model, ours.use_mkl_length)
    assert layers(by_length) == {"conv_packed", "again_packed", "pool", "head", "last"}
    tuned = ours.gen_mkl_autotuner([image], iters=2, warmup=1)
    answers = []
    result = optimized(ours, model, lambda group: answers.append(tuned(group)) or answers[-1])
    assert len(answers) == 3 and set(answers) <= {True, False}
    packed = [name in layers(result) for name in ("conv_packed", "head_packed", "last_packed")]
    assert packed == answers
    for each in (by_length, result):
        torch.testing.assert_close(each(image), model(image))


def test_configurations(model):
    assert layers(ours.optimize_for_inference(model, {"mkldnn_layout_optimize": False})) >= {"conv", "last"}
    for library in (theirs, ours):
        with pytest.raises(RuntimeError, match="Heuristic not found in mkldnn_layout_optimize config"):
            library.optimize_for_inference(model, {"mkldnn_layout_optimize": {}})


def test_sets():
    for library in (theirs, ours):
        sets = library.UnionFind(5)
        for number in range(4):
            sets.make_set(number)
        assert [sets.join(0, 1), sets.join(1, 2), sets.join(0, 2), sets.join(3, 3)] == [None, None, 0, 3]
        assert [sets.find(number) for number in range(4)] == [0, 0, 0, 3]
        with pytest.raises(AssertionError, match="Parent is None"):
            sets.find(4)


def test_modules_change_their_layout_and_back(model, image):
    traced = fxlib.symbolic_trace(model)
    modules, nodes = dict(traced.named_modules()), list(traced.graph.nodes)
    before = {name: type(module).__name__ for name, module in modules.items() if name}
    old = ours.modules_to_mkldnn(nodes, modules)
    assert {type(new).__name__: type(was).__name__ for new, was in old.items()} == {
        "MkldnnConv2d": "Conv2d", "MkldnnBatchNorm": "BatchNorm2d", "MkldnnLinear": "Linear",
    }  # fmt: skip
    convolved = traced.conv(image.to_mkldnn())
    torch.testing.assert_close(convolved.to_dense(), model.conv(image))
    ours.reset_modules(nodes, modules, old)
    assert {name: type(module).__name__ for name, module in modules.items() if name} == before
    torch.testing.assert_close(traced(image), model(image))


def test_a_breakpoint_until_the_next_recompile(monkeypatch):
    traced = fxlib.symbolic_trace(lambda x: x + 1)
    stops = []
    monkeypatch.setattr(pdb, "set_trace", lambda: stops.append(1))
    assert set_trace(traced) is traced
    assert traced(torch.ones(1)) == 2 and stops == [1]
    assert traced.code.count("import pdb; pdb.set_trace()") == 1
    traced.recompile()
    traced(torch.ones(1))
    assert stops == [1]
