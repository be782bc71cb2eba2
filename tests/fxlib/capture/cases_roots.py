"""Programs that fail because of what they construct or pass, and objects that cannot be traced, as a table; see
`cases_control` for how it is used.
"""

import collections
import functools
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


cases(
    "constructor",
    lambda x: torch.zeros(x.shape[0], 4),
    lambda x: torch.zeros((x.shape[0], 4)),
    lambda x: torch.zeros(x.shape),
    lambda x: torch.tensor(x.shape),
    lambda x: torch.Size([x.shape[0], 2]),
    lambda x: torch.arange(x.shape[0]),
    lambda x: torch.full((x.size(0),), 1.0),
    lambda x: torch.ones(3, x.shape[1]),
    lambda x: torch.empty(x.size()),
    lambda x: x.new_zeros(x.shape[0], 4),
    lambda x: torch.randn(x.shape),
    lambda x: torch.randn_like(x),
    lambda x: torch.zeros(2, device=x.device),
    lambda x: torch.zeros(2, dtype=x.dtype),
    lambda x: torch.linspace(0, 1, x.shape[0]),
    lambda x: torch.eye(x.shape[0]),
    lambda x: torch.as_tensor(x),
    lambda x: torch.Tensor(x),
    lambda x: nn.Parameter(x),
    lambda x: nn.Linear(2, x.shape[0])(x),
)


class Custom:
    pass


def helper(x):
    return x + 1


cases(
    "argument",
    lambda x: x.foo(Custom()),
    lambda x: x.foo({1, 2}),
    lambda x: x.foo(i for i in [1]),
    lambda x: x.foo(helper),
    lambda x: x.foo(len),
    lambda x: x.foo(nn.Linear(1, 1)),
    lambda x: x.foo(nn.Linear),
    lambda x: x.foo(functools.partial(len)),
    lambda x: x.foo({x: 1}),
    lambda x: x.foo({(x, 1): 1}),
    lambda x: x.foo(b"bytes"),
    lambda x: x.foo(frozenset()),
    lambda x: torch.relu(x, out=Custom()),
    lambda x: x.foo(np.zeros(2)),
    lambda x: x.foo(object),
    lambda x: x.foo(math),
    lambda x: x.foo(collections.deque([1])),
    lambda x: x + nn.Parameter(torch.ones(2)),
    lambda x: Custom(),
    lambda x: (x, {1}),
    lambda x: torch.jit.script(nn.ReLU())(x),
    lambda x: torch.vmap(lambda y: y)(x),
    lambda x: torch.func.grad(lambda y: y.sum())(x),
    lambda x: torch.cond(x, lambda y: y, lambda y: -y, (x,)),
    lambda x: torch._check(x.shape[0] > 1),
    lambda x: torch.autocast(device_type=x.device.type).__enter__(),
    lambda x: nn.Linear(2, 2)(x),
)


@case
class ModuleInPlainList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2)]

    def forward(self, x):
        return self.layers[0](x)


@case
class ParameterInPlainList(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [nn.Parameter(torch.ones(2))]

    def forward(self, x):
        return x + self.weights[0]


@case
class ParameterInPlainListMethod(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = [nn.Parameter(torch.ones(2))]

    def forward(self, x):
        return F.linear(x, self.weights[0])


@case
class NoForward(nn.Module):
    pass


@case
class SelfInStar(nn.Module):
    def forward(*args):
        return args[1]


@case
class GuardThenRaise(nn.Module):
    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"expected a tensor, got {type(x).__name__}")
        return x


for _root in (
    nn.ModuleList(), nn.ModuleDict(), nn.LSTM(2, 2), nn.GRU(2, 2), nn.MultiheadAttention(4, 2), nn.Linear(2, 3),
    nn.TransformerEncoderLayer(4, 2), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Dropout(), nn.Embedding(3, 3),
    nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.LayerNorm(2), nn.ReLU(inplace=True), nn.Identity(), nn.Flatten(),
    nn.Softmax(dim=1), nn.CrossEntropyLoss(), nn.AdaptiveAvgPool2d(1), nn.MaxPool2d(2), nn.GELU(), nn.Upsample(size=2),
    nn.RNNCell(2, 2), nn.Bilinear(2, 2, 2), nn.GroupNorm(1, 2), nn.PixelShuffle(2),
):  # fmt: skip
    CASES[f"root_{type(_root).__name__}"] = _root
for _name, _root in {
    "partial": functools.partial(helper),
    "method": nn.ReLU().forward,
    "builtin": len,
    "torch_builtin": torch.relu,
    "functional": F.relu,
    "class": int,
    "object": object(),
    "number": 3,
    "scripted": torch.jit.script(nn.ReLU()),
    "dropout_function": F.dropout,
    "gelu": F.gelu,
    "cross_entropy": F.cross_entropy,
}.items():
    CASES[f"root_{_name}"] = _root
del _root, _name
