"""Programs whose trace computes something else, as a table; see `cases_control` for how it is used."""

import collections
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


def helper(x):
    return x + 1


class Custom:
    pass


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
