"""ShapeProp and FakeTensorProp against torch.fx's, with real, fake and symbolic sizes."""

import pytest
import torch
import torch.fx as oracle
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes import fake_tensor_prop as oracle_fake
from torch.fx.passes import shape_prop as oracle_shapes
from torch.utils._pytree import tree_leaves

import fxlib
from fxlib.passes.fake_tensor_prop import FakeTensorProp
from fxlib.passes.shape_prop import ShapeProp, TensorMetadata


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x):
        x = self.bn(self.conv(x)).relu()
        left, right = x.mean((2, 3)).chunk(2)
        best = self.fc(left).max(dim=1)
        return {
            "a": self.fc(torch.cat([left, right])) * self.scale,
            "b": (best.values, x.size(0)),
            "c": x.permute(0, 2, 3, 1),
        }


def metadata(graph_module):
    return {
        n.name: (repr(n.meta.get("tensor_meta")), getattr(n.meta.get("type"), "__name__", None))
        for n in graph_module.graph.nodes
    }


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_real_inputs(layout):
    model = Net().eval()
    x = torch.randn(4, 3, 8, 8).to(memory_format=layout)
    ours, theirs = fxlib.symbolic_trace(model), oracle.symbolic_trace(model)
    mine = ShapeProp(ours).propagate(x)
    other = oracle_shapes.ShapeProp(theirs).propagate(x)
    torch.testing.assert_close(tree_leaves(mine), tree_leaves(other))
    assert metadata(ours) == metadata(theirs)
    assert isinstance(next(iter(ours.graph.nodes)).meta["tensor_meta"], TensorMetadata)


def test_fake_inputs_compute_nothing():
    model = Net().eval()
    x = torch.randn(4, 3, 8, 8)
    ours, theirs = fxlib.symbolic_trace(model), oracle.symbolic_trace(model)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    mine = ShapeProp(ours, FakeTensorMode()).propagate(x)
    oracle_shapes.ShapeProp(theirs, FakeTensorMode()).propagate(x)
    assert metadata(ours) == metadata(theirs)
    assert isinstance(mine["a"], FakeTensor)
    assert all(torch.equal(v, before[k]) and not isinstance(v, FakeTensor) for k, v in ours.state_dict().items())


def test_models_on_the_meta_device():
    with torch.device("meta"):
        model = Net()
        x = torch.empty(4, 3, 8, 8)
    graph_module = fxlib.symbolic_trace(model)
    ShapeProp(graph_module).propagate(x)
    found = {n.name: n.meta["tensor_meta"].shape for n in graph_module.graph.nodes if n.name in ("conv", "mean")}
    assert found == {"conv": (4, 8, 8, 8), "mean": (4, 8)}


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 2)

    def forward(self, x):
        return self.fc(x.flatten(1))


def test_failing_node_and_its_line_are_named():
    graph_module = fxlib.symbolic_trace(Wrong())
    with pytest.raises(RuntimeError) as caught:
        ShapeProp(graph_module).propagate(torch.randn(2, 2, 2))
    text = str(caught.value)
    with pytest.raises(RuntimeError) as theirs:
        oracle_shapes.ShapeProp(oracle.symbolic_trace(Wrong())).propagate(torch.randn(2, 2, 2))
    assert str(theirs.value).split(" with meta=")[0] in text
    assert "test_shape_prop.py:" in text and "mat1 and mat2" in text
    line = Wrong.forward.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=rf'test_shape_prop\.py", line {line}, column 16'):
        FakeTensorProp(graph_module).propagate(torch.randn(2, 2, 2))


def test_fake_tensor_prop():
    model = Net().eval()
    x = torch.randn(4, 3, 8, 8)
    ours = fxlib.symbolic_trace(model)
    mine = FakeTensorProp(ours).propagate(x)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    theirs = oracle.symbolic_trace(model)
    other = oracle_fake.FakeTensorProp(theirs, mode).propagate(x)
    assert [getattr(v, "shape", v) for v in tree_leaves(mine)] == [getattr(v, "shape", v) for v in tree_leaves(other)]
    for a, b in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert ("val" in a.meta) == ("val" in b.meta), a
        left, right = tree_leaves(a.meta.get("val")), tree_leaves(b.meta.get("val"))
        assert [(v.shape, v.dtype, v.stride()) for v in left if isinstance(v, torch.Tensor)] == [
            (v.shape, v.dtype, v.stride()) for v in right if isinstance(v, torch.Tensor)
        ], a
    assert not any(isinstance(p, FakeTensor) for p in ours.parameters())


def test_recorded_value_is_not_changed_in_place_later():
    def f(x):
        y = x + 1
        y.unsqueeze_(0)
        return y * 2

    graph_module = fxlib.symbolic_trace(f)
    FakeTensorProp(graph_module).propagate(torch.randn(3))
    shapes = {n.name: tuple(n.meta["val"].shape) for n in graph_module.graph.nodes}
    assert shapes["add"] == (3,) and shapes["mul"] == (1, 3)


@pytest.mark.parametrize("prop", ["fake", "shapes"])
def test_symbolic_batch(prop):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    graph_module = fxlib.symbolic_trace(Net().eval())
    x = torch.randn(4, 3, 8, 8)
    if prop == "fake":
        FakeTensorProp(graph_module, mode).propagate(x)
        shape = next(n for n in graph_module.graph.nodes if n.name == "conv").meta["val"].shape
    else:
        ShapeProp(graph_module, mode).propagate(x)
        shape = next(n for n in graph_module.graph.nodes if n.name == "conv").meta["tensor_meta"].shape
    assert isinstance(shape[0], torch.SymInt) and shape[1] == 8


def test_rules_for_concrete_sizes_say_who_takes_symbolic_ones():
    fake = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.randn(4, 3))
    with pytest.raises(ValueError, match=r"concrete sizes.*ShapeProp"):
        fxlib.shapes.propagate(fxlib.symbolic_trace(nn.Sequential(nn.Linear(3, 2))), fake)
