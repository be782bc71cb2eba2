"""Tools inside torch that fxlib has no counterpart of are used through the conversion, there and back."""

import torch
from torch import nn
from torch.fx.experimental.merge_matmul import merge_matmul
from torch.fx.passes.operator_support import create_op_support
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase

import fxlib
from fxlib.interop import from_torch_fx, to_torch_fx


def test_splitter():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)

        def forward(self, x):
            return torch.sigmoid(self.second(torch.relu(self.first(x))))

    model, x = Model(), torch.randn(2, 3)
    theirs = to_torch_fx(fxlib.symbolic_trace(model))
    ShapeProp(theirs).propagate(x)
    layers = create_op_support(lambda modules, node: node.op == "call_module")
    split = from_torch_fx(_SplitterBase(theirs, (x,), layers, _SplitterSettingBase())())
    names = ["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2", "_run_on_cpu_3"]
    assert [name for name, _ in split.named_children()] == names
    assert all(isinstance(part, fxlib.GraphModule) for part in split.children())
    assert torch.equal(split(x), model(x))


def test_products_merged():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, a, b):
            return torch.matmul(a, self.weight) + torch.matmul(b, self.weight)

    model, inputs = Model(), (torch.randn(2, 3), torch.randn(2, 3))
    merged = from_torch_fx(merge_matmul(to_torch_fx(fxlib.symbolic_trace(model))))
    assert sum(node.target is torch.matmul for node in merged.graph.nodes) == 1
    torch.testing.assert_close(merged(*inputs), model(*inputs))
