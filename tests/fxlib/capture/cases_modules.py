"""Modules that trace, as a table; see `cases_control` for how it is used."""

# ruff: noqa: F821
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


def decorate(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("scale", torch.ones(2))
        self.offset = torch.ones(2)

    def forward(self, x):
        return self.linear(self.linear(x)) * self.weight + self.scale + self.offset + self.weight


@case
class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.again = self.block
        self.layers = nn.Sequential(Block(), nn.ReLU(), nn.Sequential(Block(), nn.Dropout()))
        self.items = nn.ModuleList([nn.Linear(2, 2), Block()])
        self.table = nn.ModuleDict({"a": nn.Linear(2, 2)})
        self.params = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))])
        self.named = nn.ParameterDict({"p": nn.Parameter(torch.ones(2))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.block(x) + self.again(x))
        for item in self.items:
            x = item(x)
        for p in self.params:
            x = x + p
        return self.table["a"](x) + self.named["p"] + self.named.p


@case
class SharedParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Linear(2, 2)
        self.b.weight = self.a.weight
        self.w = self.a.bias

    def forward(self, x):
        return F.linear(x, self.b.weight) + self.w + self.a.bias


@case
class NoneParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("bias", None)
        self.register_buffer("buffer", None)
        self.child = None

    def forward(self, x):
        return x if self.bias is None and self.buffer is None and self.child is None else -x


@case
class OutsideParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = nn.Linear(2, 2)

    def forward(self, x):
        return x + self.child.weight + self.child.weight.shape[0]


@case
class CallsForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Block()

    def forward(self, x):
        return self.child.forward(x) + self.child.linear.forward(x)


@case
class Methods(nn.Module):
    def helper(self, x, n=2):
        return x * n

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x - 1

    @property
    def two(self):
        return 2

    def forward(self, x):
        return self.helper(self.static(x), self.two) + self.of_class(x)


@case
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Block()
        self.child.register_forward_hook(lambda m, i, o: o * 2)
        self.child.register_forward_pre_hook(lambda m, i: (i[0] + 1,))
        self.child.linear.register_forward_hook(lambda m, i, o: o * 3)

    def forward(self, x):
        return self.child(x)


@case
class OwnGetattr(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))

    def __getattr__(self, name):
        if name == "alias":
            return self.w
        return super().__getattr__(name)

    def forward(self, x):
        return x + self.alias + self.w


@case
class ForwardOnInstance(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Block()
        self.child.forward = lambda x: x * 5

    def forward(self, x):
        return self.child(x)


@case
class KeywordCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(2, 2, 2)

    def forward(self, x, y):
        return self.bilinear(x, input2=y)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(2, 2, 2)
        self.table = torch.ones(2)

    def forward(self, x):
        return self.bilinear(x.foo, self.table) * self.bilinear(input1=x, input2=x.bar) + self.bilinear(x, [x, x])


@case
class LeafOfConstants(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Inner()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("table", torch.ones(2))

    def forward(self, x):
        return self.block(x) + self.linear(self.table) + self.linear(x.T) + self.linear(input=torch.ones(2))


@case
class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        for _ in range(3):
            x = self.block(x)
        return x


@case
class VariadicForward(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0] + kwargs["k"]


@case
class DecoratedForward(nn.Module):
    @decorate
    def forward(self, x: int, y=2) -> int:
        return x + y


@case
class NumberedNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.add = nn.Linear(2, 2)
        self.add_1 = nn.Linear(2, 2)
        self.x = nn.Parameter(torch.ones(2))
        self._private = nn.ReLU()
        setattr(self, "0", nn.ReLU())

    def forward(self, x):
        return self.add(x + 1) + self.add_1(x + 2) + self.x + self._private(getattr(self, "0")(x))


@case
class ConstantNames(nn.Module):
    def __init__(self):
        super().__init__()
        self._tensor_constant0 = 3
        self._tensor_constant1 = torch.ones(2)

    def forward(self, x):
        return x + torch.ones(2) + torch.ones(2) + self._tensor_constant1


@case
class ActivationChoice(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = F.gelu
        self.norm = functools.partial(F.layer_norm, normalized_shape=(2,))

    def forward(self, x):
        return self.norm(self.act(x))


@case
class EveryKind(nn.Module):
    """All six opcodes."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(16, 8))
        self.project = nn.Linear(8, 3)

    def forward(self, tokens):
        scores = self.project(torch.roll(tokens, 1, 0) * self.position)
        return scores.argmax(-1)


CASES["graph_module_again"] = fx.symbolic_trace(Nested())


@case
class HoldsGraphModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = fx.symbolic_trace(Block())

    def forward(self, x):
        return self.inner(x) + 1


@case
def traces_inside(x):
    inner = fx.symbolic_trace(lambda y: torch.relu(y) + 1)
    return inner(x) * 2
