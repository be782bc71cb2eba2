"""Programs to trace, as a table: name -> function. `programs` runs this file once with torch.fx and once with fxlib
bound to ``fx``, so that both trace the same text.
"""

# ruff: noqa: RUF059
import collections
import copy
import functools
import itertools
import math
import operator

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from tables import Table

CASES = Table()
case, cases = CASES.case, CASES.cases


# --- loud: control flow -----------------------------------------------------------------------------------------------


@case
def if_on_value(x):
    if x.sum() > 0:
        return x
    return -x


@case
def while_on_value(x):
    while x.sum() > 0:
        x = x - 1
    return x


@case
def assert_on_value(x):
    assert x.sum() > 0, "positive"
    return x


@case
def bool_argument_with_default(x, flag: bool = False):
    return x if flag else -x


@case
def string_argument_with_default(x, mode="a"):
    if mode == "a":
        return x
    return -x


@case
def integer_argument_with_default(x, n: int = 2):
    if n > 1:
        return x
    return -x


cases(
    "control",
    lambda x: x if x.mean() > 0 else -x,
    lambda x: x and -x,
    lambda x: x or -x,
    lambda x: not x,
    lambda x: 0 < x < 1,
    lambda x: x.shape[0] in (1, 2),
    lambda x: x.shape[0] in [1, 2],
    lambda x: max(x, x + 1),
    lambda x: min(x.shape[0], 3),
    lambda x: bool(x),
    lambda x: x if x.shape[0] > 1 else -x,
    lambda x: x if x.dim() == 2 else -x,
    lambda x: x if x.dtype == torch.float32 else -x,
    lambda x: x if x.is_cuda else -x,
    lambda x: all([x > 0]),
    lambda x: any(c for c in [x]),
    lambda x: sorted([x, x]),
    lambda x: [v for v in [1, 2] if x > v],
    lambda x: x == x and x,
    lambda x: x != 1 or x,
    lambda x: [x].index(x + 1),
    lambda x: {1: x}.get(x, x) or 1,
    lambda x: isinstance(x.shape[0], int) and x,
)


# --- loud: iteration --------------------------------------------------------------------------------------------------


@case
def for_over_value(x):
    total = 0
    for row in x:
        total = total + row
    return total


@case
def starred_unpack(x):
    b, *rest = x.shape
    return x.view(b, -1)


@case
def star_argument(x):
    return torch.add(*x)


@case
def double_star_argument(x):
    return dict(**x)


@case
def range_of_shape(x):
    for _ in range(x.shape[0]):
        x = x + 1
    return x


cases(
    "iteration",
    lambda x: [v for v in x],
    lambda x: list(x),
    lambda x: tuple(x.shape),
    lambda x: sum(x.shape),
    lambda x: max(x.shape),
    lambda x: sorted(x.shape),
    lambda x: list(enumerate(x)),
    lambda x: list(zip(x, x)),  # noqa: B905
    lambda x: x.view(*x.shape[:2], -1),
    lambda x: {**x},
    lambda x: x.items(),
    lambda x: [k for k in x.items()],
    lambda x: "a" in x,
    lambda x: list(x.chunk(2, 1)),
    lambda x: torch.cat([*x.split(1)]),
    lambda x: functools.reduce(operator.add, x),
    lambda x: list(map(torch.relu, x)),
    lambda x: next(iter(x)),
    lambda x: list(itertools.chain(x, x)),
    lambda x: [*x],
    lambda x: dict(x),
    lambda x: set(x),
    lambda x: "".join(x),
    lambda x: x.keys(),
    lambda x: [k for k in x.keys()],  # noqa: SIM118
    lambda x: np.array([x, x]),
)


# --- loud: length, numbers, numpy -------------------------------------------------------------------------------------

cases(
    "number",
    lambda x: len(x),
    lambda x: len(x.shape),
    lambda x: list(reversed(x)),
    lambda x: torch.tensor([x, 3]),
    lambda x: torch.tensor(x),
    lambda x: int(x),
    lambda x: float(x.sum()),
    lambda x: complex(x),
    lambda x: round(x),
    lambda x: round(x, 2),
    lambda x: divmod(x, 2),
    lambda x: range(x),
    lambda x: [1, 2, 3][x],
    lambda x: [1, 2, 3][:x],
    lambda x: {1: 2}[x],
    lambda x: "%d" % x,  # noqa: UP031
    lambda x: f"{x:3d}",
    lambda x: f"{x.sum():.3f}",
    lambda x: math.floor(x),
    lambda x: math.trunc(x),
    lambda x: operator.index(x),
    lambda x: hex(x),
    lambda x: chr(x),
    lambda x: [0] * x,
    lambda x: x * [0],
    lambda x: "a" * x,
    lambda x: bytes(x),
    lambda x: np.asarray(x),
    lambda x: np.sqrt(x),
    lambda x: x * np.float32(2.0),
    lambda x: np.float32(2.0) * x,
    lambda x: x + np.array([1.0]),
    lambda x: torch.from_numpy(x),
    lambda x: x.foo(np.int64(3)),
    lambda x: pow(2, x),
    lambda x: pow(x, 2),
    lambda x: pow(x, 2, 5),
    lambda x: abs(x),
    lambda x: sum([x, x]),
    lambda x: +x,
    lambda x: ~x,
)


@case
def set_item(x):
    x[0] = 1
    return x


@case
def add_into_item(x):
    x[:, 0] += 1
    return x


@case
def delete_item(x):
    del x[0]
    return x


@case
def set_attribute(x):
    x.foo = 3
    return x


@case
def set_data(x):
    x.data = x + 1
    return x.data


@case
def with_proxy(x):
    with x:
        return x


@case
def await_like(x):
    return (yield x)


# --- loud: constructors, modules, arguments ---------------------------------------------------------------------------

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


# --- silent -----------------------------------------------------------------------------------------------------------

cases(
    "silent",
    lambda x, y=None: x if y is None else x + y,
    lambda x: x if isinstance(x, torch.Tensor) else -x,
    lambda x: x if torch.is_tensor(x) else -x,
    lambda x: x if type(x) is torch.Tensor else -x,
    lambda x: x if hasattr(x, "gathered") else -x,
    lambda x: x if callable(x.shape) else -x,
    lambda x: x if x.shape[0] in {1, 2} else -x,
    lambda x: (x, f"{x}"),
    lambda x: (x, str(x), repr(x)),
    lambda x: x.gathered(),
    lambda x: x.gathered,
    lambda x: {"a": x}["a"],
    lambda x: {hash(x): x} and x,
    lambda x: torch.no_grad()(helper)(x),
    lambda x: collections.OrderedDict(a=x),
    lambda x: copy.copy(x),
    lambda x: x.data,
    lambda x: torch.utils.checkpoint.checkpoint(helper, x, use_reentrant=False),
    lambda x: torch.is_floating_point(x),
    lambda x: torch.is_grad_enabled(),
    lambda x: x.__len__(),
    lambda x: x.__class__,
    lambda x: x.__dict__ and x,
    lambda x: getattr(x, "a", 3),
    lambda x: dir(x) and x,
    lambda x: x is x,
    lambda x: [x] == [x],
    lambda x: x in [x],
)


@case
def grad_mode(x):
    with torch.no_grad():
        return x + 1


@case
def autocast(x):
    with torch.autocast("cpu"):
        return x @ x


@case
def swallowed(x):
    try:
        if x > 0:
            return x
    except Exception:
        pass
    return -x


@case
def attribute_fallback(x):
    try:
        return x.foo()
    except AttributeError:
        return x


@case
class Training(nn.Module):
    def forward(self, x):
        return F.dropout(x, training=self.training) if self.training else x


@case
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.register_buffer("m", torch.zeros(2))

    def forward(self, x):
        self.n += 1
        self.m = self.m + 1
        return x * self.n + self.m


@case
class Cache(nn.Module):
    def forward(self, x):
        self.cache = x
        return self.cache + 1


@case
class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = torch.ones(2)
        self.items = [torch.ones(2)]

    def forward(self, x):
        return x + self.t + self.items[0] + torch.ones(2) + self.items[0]


@case
class AssignedInForward(nn.Module):
    def forward(self, x):
        self.made = torch.ones(2)
        self.p = nn.Parameter(torch.ones(2))
        return x + self.made + self.p


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g


cases("autograd", lambda x: Double.apply(x))


class Inner(nn.Module):
    def forward(self, x):
        if x:
            return x
        return -x


@case
class SwallowedOneLevelUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        try:
            return self.inner(x)
        except ValueError:
            return x + 1


@case
class SwallowedTwoLevelsUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = SwallowedOneLevelUp()

    def forward(self, x):
        return self.middle(x)


@case
class SwallowedAtLeaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        try:
            x = self.linear(Custom())
        except NotImplementedError:
            x = x + 1
        return self.linear(x)


@case
class SwallowedAtLeafInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = SwallowedAtLeaf()

    def forward(self, x):
        return self.inner(x)
