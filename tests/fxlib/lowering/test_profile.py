"""Where the time goes: each kernel leads to the nodes that it computes, and to their lines."""

import torch
from torch import nn

import fxlib
from fxlib.lowering.kernels import longest_beginning


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.same = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.relu(x + self.same(x))
        return self.head(x.mean((2, 3)))


def test_a_kernel_has_the_nodes_that_were_joined_in_it():
    lowered = fxlib.lower(Block().eval(), (torch.randn(1, 4, 16, 16),))
    rows = {row.node: row for row in lowered.profile(torch.randn(1, 4, 16, 16), runs=3)}
    assert rows["conv"].nodes == ["conv", "norm", "relu"] and "Conv" in rows["conv"].kernels
    told = [node for row in rows.values() for node in row.nodes]
    assert sorted(told) == sorted({layer.node for layer in lowered.report.layers if layer.operators}), "each node once"
    assert all(row.ms >= 0 for row in rows.values()) and abs(sum(row.share for row in rows.values()) - 1) < 1e-6
    spans = {layer.node: layer.span for layer in lowered.report.layers}
    assert rows["head"].span == spans["head"] and rows["head"].span[0] == __file__


def test_what_stays_in_pytorch_has_its_time_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = torch.logcumsumexp(torch.tanh(self.linear(x)) + x * 2, 1)
            return torch.relu(y) * 2 + 1

    lowered = fxlib.lower(Net().eval(), (torch.randn(8, 8),))
    rows = lowered.profile(torch.randn(8, 8), runs=2)
    (outside,) = [row for row in rows if not row.kernels]
    assert outside.span is not None and outside.part not in {row.part for row in rows if row.kernels}
    assert [row.part for row in rows] == sorted((row.part for row in rows), key=[r.part for r in rows].index)
    torch.testing.assert_close(lowered(torch.eye(8)), lowered(torch.eye(8)))  # the hooks are gone, and it runs


def test_half_precision_and_a_transformer():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixed, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)
            self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x):
            mixed = self.mixed(torch.softmax(x @ x.transpose(1, 2) / 4, -1) @ x)
            return self.norm(x + mixed) + self.narrow(nn.functional.gelu(self.wide(x)))

    layer, x = Layer().eval(), torch.randn(2, 6, 16)
    fxlib.lower(layer, (x,), precision="fp16").profile(x, runs=2)
    lowered = fxlib.lower(layer, (x,))
    rows = {row.node: row for row in lowered.profile(x, runs=2)}
    assert {"mixed", "norm", "wide", "narrow"} <= set(rows)
    told = {node for row in rows.values() for node in row.nodes}
    assert told == {layer.node for layer in lowered.report.layers if layer.operators}


def test_names_end_where_onnxruntime_adds_to_them():
    ours = {"relu/Relu", "relu_1/Relu", "matmul/MatMul"}
    begins = lambda name: longest_beginning(name, ours, "_/")  # noqa: E731
    assert begins("relu/Relu_nchwc") == "relu/Relu"
    assert begins("matmul/MatMul/MatMulScaleFusion/") == "matmul/MatMul"
    assert begins("relu_1/Relu") == "relu_1/Relu"
    assert begins("relu/Relux") == "" == begins("BiasGelu_token_10")
