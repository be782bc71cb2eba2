"""FX10x: a traced value decides which code runs."""

from fxlib.diagnosis.rules.rule import Rule, add

_TORCH = "symbolically traced variables cannot be used as inputs to control flow"

add(
    Rule(
        "FX101",
        "data-condition",
        "Control flow on the values of a tensor",
        "This {form} needs a tensor's value, which tracing does not have: {it}",
        "error",
        """`if`, `while`, a ternary, `and`, `or`, `not` and `bool()` ask Python for one truth value. While tracing
there is no data: the tensor is a `Proxy`, and the graph has no branches, so torch.fx refuses. The condition depends
on the values in a tensor, hence no example can answer it; both sides must become part of the graph (`torch.where`),
or the whole block one opaque call (`torch.fx.wrap`).""",
        _TORCH,
        ("if-to-where", "lift-block", "lift-expression", "wrap"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # <- here
            y = x + 1
        else:
            y = x - 1
        return y
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.where(x.sum() > 0, x + 1, x - 1)
""",
        question=True,
    ),
    Rule(
        "FX102",
        "shape-condition",
        "Control flow on a shape, dtype or device",
        "This {form} needs a shape, dtype or device, which is a traced value: {it}",
        "error",
        """`x.shape[0]`, `x.dim()`, `x.size(1)`, `x.dtype` and `x.is_cuda` of a traced value are traced values
themselves, so a condition on them cannot be decided while tracing, although every example input would give the same
answer. If the answer never changes, decide once, outside forward: from the configuration of the module, or with
`torch._assert` where it is a check.""",
        _TORCH,
        ("lift-block", "lift-expression", "wrap", "leaf-module"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.dim() == 3:  # <- here
            x = x.unsqueeze(0)
        return x * 2
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, batched=True):
        super().__init__()
        self.batched = batched

    def forward(self, x):
        if not self.batched:
            x = x.unsqueeze(0)
        return x * 2
""",
        question=True,
    ),
    Rule(
        "FX103",
        "argument-condition",
        "Control flow on an argument that is not a tensor",
        "This {form} needs the value of an argument, which is a traced value: {it}",
        "error",
        """Every argument of forward becomes a placeholder of the graph, also a flag such as `flag: bool = True`. A
condition on it cannot be decided. Fix the argument for the trace with `concrete_args={"flag": True}`, or make it an
attribute of the module.""",
        _TORCH,
        ("concrete-argument",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, double: bool = True):
        if double:  # <- here
            x = x * 2
        return x
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, double: bool = True):
        super().__init__()
        self.double = double

    def forward(self, x):
        if self.double:
            x = x * 2
        return x
""",
        question=True,
    ),
    Rule(
        "FX104",
        "assertion",
        "assert on a traced value",
        "This `assert` needs a value that tracing does not have: {it}",
        "error",
        """`assert` asks for a truth value like `if` does. `torch._assert(condition, message)` is recorded as a node
and checked whenever the graph runs. (`Tracer.trace_asserts` turns asserts of tensors into such nodes, but is off by
default.)""",
        _TORCH,
        ("torch-assert",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        assert x.shape[1] == 3, "three columns"  # <- here
        return x * 2
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        torch._assert(x.shape[1] == 3, "three columns")
        return x * 2
""",
        question=True,
    ),
    Rule(
        "FX105",
        "membership",
        "Membership test of a traced value",
        "{it} compares a traced value with each item, and needs the results",
        "error",
        """`value in (1, 2)` compares with each element and asks for the truth of every comparison. (With a set on
the right nothing is compared but hashes, and the answer is silently wrong: see FX204.)""",
        _TORCH,
        ("lift-block", "lift-expression", "wrap"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.shape[1] in (1, 3):  # <- here
            x = x * 2
        return x
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    channels = 3

    def forward(self, x):
        if self.channels in (1, 3):
            x = x * 2
        return x
""",
        question=True,
    ),
    Rule(
        "FX106",
        "min-max",
        "Built-in min, max or sorted of traced values",
        "`{call}()` compares traced values and needs the result: {it}",
        "error",
        """The built-in `max(a, b)` compares and asks for the truth of the comparison. `torch.maximum`,
`torch.minimum` and `clamp` do the same on tensors and are recorded; for sizes wrap the built-in:
`torch.fx.wrap("max")`.""",
        _TORCH,
        ("wrap", "torch-maximum"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * max(x.shape[0], x.shape[1])  # <- here
""",
        """\
import torch
import torch.fx
from torch import nn

torch.fx.wrap("max")


class Net(nn.Module):
    def forward(self, x):
        return x * max(x.shape[0], x.shape[1])
""",
    ),
    Rule(
        "FX107",
        "chained-comparison",
        "Chained comparison of a traced value",
        "{it} is two comparisons joined by `and`, which needs the value of the first",
        "error",
        """`low < value < high` means `low < value and value < high`, and `and` asks for a truth value. Compare
twice and join with `&`.""",
        _TORCH,
        ("split-comparison",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * (0 < x.sum() < 10)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * ((0 < x.sum()) & (x.sum() < 10))
""",
    ),
)
